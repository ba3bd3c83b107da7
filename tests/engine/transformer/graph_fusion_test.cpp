// Laws of passes over the operator graph: what is fused computes the same logits, to the bit, and moves less.
#include <set>

#include "engine/quant/kv_rows.hpp"
#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

struct Seen {
  std::vector<std::vector<float>> logits;
  MoveCounts moves;
  std::set<std::string> operators;
};

// A prompt of 9 rows in one step, then single rows, of two sequences.
Seen run_with(DecoderSetup setup, Fuse fuse) {
  setup.engine.fuse = fuse;
  TestDecoder decoder(setup);
  Seen seen;
  decoder.function.before = [&](const KernelCall& call) { seen.operators.insert(std::string(to_string(call.op))); };
  Rng rng(3);
  for (const std::uint32_t adapter : {0u, setup.adapters.empty() ? 0u : 1u}) {
    const std::uint32_t sequence = decoder.model().kv().create(adapter);
    for (const std::size_t rows : {9u, 1u, 1u}) {
      for (auto& row : decoder.append(sequence, random_tokens(rng, rows, setup.config.vocab))) seen.logits.push_back(std::move(row));
    }
  }
  seen.moves = decoder.model().move_counts();
  return seen;
}

std::vector<DecoderSetup> models() {
  std::vector<DecoderSetup> all(7);
  all[1].config = tiny_mixture();
  all[4].config = tiny_full_mixture();
  all[2].config.qk_norm = QkNorm::heads;
  all[2].config.sub_norms = all[2].config.qkv_bias = true;
  all[2].matrices = Format::q8_0;
  all[2].engine.products.matmul = variant::kInt8;
  all[5].config.joined_qkv = all[5].config.joined_gate_up = all[5].config.qkv_bias = true;
  all[6].config = all[5].config;
  all[6].matrices = Format::f16;
  all[6].adapters = {LoraShape{4, 8, {Role::attn_qkv, Role::ffn_gate_up, Role::ffn_down}, Format::f32}};
  all[3].adapters = {LoraShape{4, 8, {Role::attn_q, Role::attn_v, Role::attn_output}, Format::f32}};
  return all;
}

TEST(GraphFusion, an_unfused_graph_computes_the_same_logits) {
  for (DecoderSetup setup : models()) {
    const Seen expected = run_with(setup, Fuse::all);
    EXPECT_FALSE(expected.operators.contains("move") || expected.operators.contains("inverse_rms"));
    EXPECT_TRUE(expected.operators.contains("attention") && !expected.operators.contains("attention_scores"));
    for (const std::uint32_t threads : {1u, 3u}) {
      setup.engine.placement.threads = threads;
      const Seen none = run_with(setup, Fuse::none), geometry = run_with(setup, Fuse::geometry);
      EXPECT_EQ(none.logits, expected.logits);
      EXPECT_EQ(geometry.logits, expected.logits);
      EXPECT_TRUE(none.operators.contains("move") && none.operators.contains("scale_rows"));
      EXPECT_TRUE(!geometry.operators.contains("move") && geometry.operators.contains("scale_rows"));
      for (const Seen* apart : {&none, &geometry}) {
        EXPECT_TRUE(apart->operators.contains("attention_values") && !apart->operators.contains("attention"));
      }
      EXPECT_EQ(geometry.moves.calls, 0u);
    }
  }
}

TEST(GraphFusion, moves_of_the_unfused_graph_are_three_of_each_head_and_row) {
  const DecoderSetup setup;
  const Seen none = run_with(setup, Fuse::none);
  const std::uint64_t rows = 2 * 11, elements = rows * setup.config.layers * 6 * (setup.config.q_width() + setup.config.kv_width());
  EXPECT_EQ(none.moves.read, 4 * elements);
  EXPECT_EQ(none.moves.written, 4 * elements);
  EXPECT_EQ(none.moves.calls, 2u * 3 * setup.config.layers * 12) << "on one core, of six steps";
}

// Every number that a part leaves for the next one: a score and a weight for each head, row and position that the row sees.
TEST(GraphFusion, attention_in_parts_passes_scores_and_weights_through_memory) {
  DecoderSetup setup;
  const std::uint64_t seen = 2 * (11 * 12 / 2);  // positions 0 to 10 of two sequences
  const Seen none = run_with(setup, Fuse::none);
  EXPECT_EQ(none.moves.scores_written, 2 * 4 * setup.config.layers * setup.config.heads * seen);
  EXPECT_EQ(none.moves.scores_read, none.moves.scores_written);
  EXPECT_EQ(run_with(setup, Fuse::all).moves.scores_read, 0u);
  setup.config.window = 4;
  const std::uint64_t fewer = 2 * (1 + 2 + 3 + 8 * 4);
  EXPECT_EQ(run_with(setup, Fuse::geometry).moves.scores_read, 2 * 4 * setup.config.layers * setup.config.heads * fewer);
}

// However keys and values are kept, and activations with them.
TEST(GraphFusion, attention_in_parts_has_the_logits_of_the_whole_with_every_format) {
  for (const Format format : kKvFormats) {
    for (const Format activations : {Format::f32, Format::f16}) {
      DecoderSetup setup;
      setup.config.head_dim = setup.config.rope.dims = 32;  // whole blocks of every format
      setup.config.window = 5;
      setup.engine.kv.format = format;
      setup.engine.activations = activations;
      const Seen expected = run_with(setup, Fuse::all);
      for (const std::uint32_t threads : {1u, 3u}) {
        setup.engine.placement.threads = threads;
        EXPECT_EQ(run_with(setup, Fuse::none).logits, expected.logits) << to_string(format) << " " << to_string(activations);
      }
    }
  }
}

// Prompts and single rows of a model whose layers are the accelerator's, and which operators that one was given.
std::pair<std::vector<std::vector<float>>, std::set<std::string>> beside_accelerator(DecoderSetup setup, Fuse fuse) {
  setup.engine.fuse = fuse;
  setup.engine.placement.kind = "layers";
  setup.engine.placement.units = {"cpu0"};
  VirtualMachineSpec spec = machine_spec(units_of(2, {"npu"}));
  std::set<std::string> given;
  spec.price = [&given](const UnitCaps& caps, const KernelCall& call) {
    if (caps.kind != UnitKind::core) given.insert(std::string(to_string(call.op)));
    return Picoseconds(1);
  };
  TestDecoder decoder(setup, spec);
  std::vector<std::vector<float>> logits;
  Rng rng(3);
  const std::uint32_t sequence = decoder.model().kv().create(setup.adapters.empty() ? 0 : 1);
  for (const std::size_t rows : {9u, 1u, 1u}) {
    for (auto& row : decoder.append(sequence, random_tokens(rng, rows, setup.config.vocab))) logits.push_back(std::move(row));
  }
  return {std::move(logits), std::move(given)};
}

TEST(GraphFusion, what_an_accelerator_lacks_of_an_unfused_graph_a_core_computes) {
  for (const DecoderSetup& setup : models()) {
    const auto [expected, fused] = beside_accelerator(setup, Fuse::all);
    EXPECT_TRUE(fused.contains("attention") && fused.contains("matmul"));
    for (const Fuse fuse : {Fuse::none, Fuse::geometry}) {
      const auto [logits, given] = beside_accelerator(setup, fuse);
      EXPECT_EQ(logits, expected);
      EXPECT_TRUE(given.contains("matmul"));
      for (const char* part : {"move", "inverse_rms", "scale_rows", "attention_scores", "attention_weights", "attention_values"}) {
        EXPECT_FALSE(given.contains(part)) << part;
      }
    }
  }
}

TEST(GraphFusion, an_accelerator_alone_needs_the_fused_graph) {
  DecoderSetup setup;
  setup.engine.fuse = Fuse::none;
  setup.engine.placement.kind = "unit";
  setup.engine.placement.units = {"npu"};
  try {
    const TestDecoder decoder(setup, machine_spec(units_of(0, {"npu"})));
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "engine.graph.fuse: none leaves operators that only cores have, and engine.placement.units has npu alone "
                               "(expected all, or a core beside it, such as cpu0)");
  }
}

TEST(GraphFusion, the_key_takes_its_three_values) {
  EXPECT_EQ(read_engine_text("{}").fuse, Fuse::all);
  EXPECT_EQ(read_engine_text(R"({"graph": {"fuse": "none"}})").fuse, Fuse::none);
  EXPECT_EQ(read_engine_text(R"({"graph": {"fuse": "geometry"}})").fuse, Fuse::geometry);
  EXPECT_THROW(read_engine_text(R"({"graph": {"fuse": "some"}})"), ConfigError);
  EXPECT_THROW(read_engine_text(R"({"graph": {"fused": "all"}})"), ConfigError);
}

}  // namespace
}  // namespace vitro
