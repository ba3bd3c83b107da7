// Steps of a model whose accelerator attends to staged keys and values: what it reads, and that nothing but the rounding shows.
#include <set>

#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

using Logits = std::vector<std::vector<float>>;

const std::vector<std::int32_t> kTokens{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

// Two cores, and a third one in place of an accelerator.
DecoderSetup staged(const std::string& kind, std::uint64_t timing = 1) {
  DecoderSetup setup;
  setup.config.layers = 3;
  setup.engine.kv.format = Format::int8_fp8;
  setup.engine.placement.kind = kind;
  setup.engine.placement.units = {"cpu0", "cpu1"};
  setup.engine.placement.unit = "cpu2";
  setup.engine.placement.stages_kv = true;
  setup.timing = timing;
  if (kind == "cores") setup.engine.placement.splits = {{1, 0.5, 0.5, 0.25}, {4, 0.5, 1, 0}};
  return setup;
}

Logits row_by_row(TestDecoder& decoder, const std::vector<std::int32_t>& tokens) {
  const std::uint32_t sequence = decoder.model().kv().create();
  Logits all;
  for (const std::int32_t token : tokens) all.push_back(decoder.append(sequence, {token}).front());
  return all;
}

TEST(StagedAttention, heads_of_the_accelerator_read_the_staged_pool_and_those_of_cores_the_cache) {
  for (const char* kind : {"cores", "layers"}) {
    for (const std::uint32_t window : {0u, 5u}) {
      DecoderSetup setup = staged(kind);
      setup.config.window = window;
      TestDecoder decoder(setup);
      std::set<std::uint64_t> pool, cache;
      std::uint32_t stages = 0, attends = 0;
      decoder.function.before = [&](const KernelCall& call) {
        if (call.is<ops::KvAppend>()) cache.insert(call.out[0].memory.id());
        if (call.is<ops::KvStage>()) {
          ++stages;
          pool.insert(call.out[0].memory.id());
        }
        if (!call.is<ops::Attention>()) return;
        const bool halves = call.in[1].format == Format::f16;
        attends += halves;
        EXPECT_TRUE((halves ? pool : cache).contains(call.in[1].memory.id()));
      };
      const std::uint32_t a = decoder.model().kv().create(), b = decoder.model().kv().create();
      decoder.append(a, {1, 2, 3, 4, 5, 6, 7});
      decoder.append(b, {8, 9});
      decoder.append(a, {10});
      EXPECT_GE(stages, 3 * 3u) << kind;
      EXPECT_EQ(attends, 3 * 3u) << kind << ": one unit, three layers, three steps";
    }
  }
}

// What a row sees is staged whatever else its step has.
TEST(StagedAttention, depends_neither_on_timing_nor_on_the_grouping_of_rows) {
  Logits expected;
  for (std::uint64_t timing = 1; timing <= 3; ++timing) {
    TestDecoder decoder(staged("layers", timing));
    const Logits alone = row_by_row(decoder, kTokens);
    if (expected.empty()) expected = alone;
    EXPECT_EQ(alone, expected) << "timing " << timing;
    EXPECT_EQ(decoder.append(decoder.model().kv().create(), kTokens), expected) << "in one step";
  }
  DecoderSetup plain = staged("layers");
  plain.engine.placement.stages_kv = false;
  TestDecoder decoder(plain);
  EXPECT_NE(row_by_row(decoder, kTokens), expected) << "keys and values are rounded to halves on their way";
}

TEST(StagedAttention, forks_and_blocks_in_flash_get_the_logits_of_sequences_alone) {
  for (const bool flash : {false, true}) {
    DecoderSetup setup = staged("layers");
    setup.config.head_dim = setup.config.rope.dims = 124;  // a slice of eight positions is a page then
    TestDecoder alone(setup);
    if (flash) setup.engine.kv.dram_tokens = 0;
    TestDecoder decoder(setup);
    KvCache& kv = decoder.model().kv();
    Rng rng(4);
    std::vector<std::int32_t> text = random_tokens(rng, 16, setup.config.vocab);
    const std::uint32_t first = kv.create();
    decoder.append(first, text);
    const std::uint32_t second = kv.fork(first);
    for (int step = 0; step < 4; ++step) {
      StepInput both = TestDecoder::appending(decoder.model(), first, {1});
      const StepInput other = TestDecoder::appending(decoder.model(), second, {2});
      both.rows.push_back(other.rows.front());
      both.tokens.push_back(other.tokens.front());
      both.sampled.push_back(1);
      decoder.step(both);
    }
    const Logits together = decoder.logits(2);
    for (const std::int32_t token : {1, 2}) {
      std::vector<std::int32_t> whole = text;
      whole.insert(whole.end(), 4, token);
      EXPECT_EQ(row_by_row(alone, whole).back(), together[static_cast<std::size_t>(token - 1)]) << (flash ? "flash" : "DRAM");
    }
    EXPECT_EQ(flash, decoder.model().kv_flash() != nullptr && decoder.model().kv_flash()->read > 0);
    decoder.run(decoder.model().settle());
  }
}

// Each chunk of a layer has staged places of its own, and rows of an adapter keep it.
TEST(StagedAttention, of_a_prompt_layer_by_layer_has_the_logits_of_one_chunk_by_chunk) {
  constexpr std::uint32_t kPrompt = 30, kChunk = 7;
  for (const bool flash : {false, true}) {
    for (const std::uint32_t window : {0u, 11u}) {
      DecoderSetup setup = staged("layers");
      setup.config.head_dim = setup.config.rope.dims = 124;  // a slice of eight positions is a page then
      setup.config.window = window;
      setup.engine.prefill_chunk = kChunk;
      setup.limits.prompt_rows = kPrompt;
      setup.adapters = {{4, 8, {Role::attn_q, Role::attn_v, Role::attn_output, Role::ffn_down}}};
      if (flash) setup.engine.kv.dram_tokens = 0;
      Rng rng(5);
      const std::vector<std::int32_t> text = random_tokens(rng, kPrompt, setup.config.vocab);
      const auto logits = [&](PrefillOrder order, std::uint32_t adapter) {
        setup.engine.prefill_order = order;
        TestDecoder decoder(setup);
        const std::uint32_t sequence = decoder.model().kv().create(adapter);
        EXPECT_EQ(decoder.model().span(), order == PrefillOrder::layers ? kPrompt : 0);
        Logits all;
        if (order == PrefillOrder::layers) {
          StepInput prompt = TestDecoder::appending(decoder.model(), sequence, text);
          prompt.sampled = {kPrompt - 1};
          prompt.chunk_rows = kChunk;
          decoder.step(std::move(prompt));
          all = decoder.logits(1);
        } else {
          for (std::uint32_t done = 0; done < kPrompt; done += kChunk) {
            all = {decoder.append(sequence, {text.begin() + done, text.begin() + std::min(done + kChunk, kPrompt)}).back()};
          }
        }
        for (const std::int32_t token : {1, 2, 3}) all.push_back(decoder.append(sequence, {token}).front());
        EXPECT_EQ(decoder.model().kv_flash() != nullptr && decoder.model().kv_flash()->written > 0, flash);
        decoder.run(decoder.model().settle());
        return all;
      };
      const Logits base = logits(PrefillOrder::chunks, 0), adapted = logits(PrefillOrder::chunks, 1);
      EXPECT_NE(base, adapted);
      EXPECT_EQ(logits(PrefillOrder::layers, 0), base) << (flash ? "flash" : "DRAM") << ", window " << window;
      EXPECT_EQ(logits(PrefillOrder::layers, 1), adapted) << (flash ? "flash" : "DRAM") << ", window " << window;
    }
  }
}

// On a unit of static graphs: a full chunk has the logits of layers on it, any other step those of cores alone.
TEST(StagedAttention, of_a_chunk_on_a_neural_engine_is_that_of_layers_on_it) {
  for (const Format format : {Format::int8_fp8, Format::f32}) {
    const auto logits = [&](const std::string& kind, bool stages) {
      DecoderSetup setup;
      setup.engine.kv.format = format;
      setup.engine.placement.kind = kind;
      setup.engine.placement.units = {"cpu0", "cpu1"};
      setup.engine.placement.stages_kv = stages;
      setup.engine.prefill_chunk = 8;
      TestDecoder decoder(setup, machine_spec(units_of(2, {"npu"})));
      const std::uint32_t sequence = decoder.model().kv().create();
      const auto end = kTokens.begin() + 8;
      return std::pair{decoder.append(sequence, {kTokens.begin(), end}), decoder.append(sequence, {end, kTokens.end()})};
    };
    const auto chunk = logits("chunk_attention", true), plain = logits("cores", false);
    EXPECT_NE(chunk.first, plain.first) << "rounded";
    if (format == Format::int8_fp8) {  // in float32 no unit but a neural engine needs it
      EXPECT_EQ(chunk.first, logits("layers", true).first);
    }
    EXPECT_EQ(logits("chunk_attention", false).first, plain.first) << "the cores' without it";
  }
}

// The pool of the largest step is what the budget has to have room for, beside everything else.
TEST(StagedAttention, the_pool_is_charged_to_the_budget_as_long_as_a_step_is) {
  TestDecoder decoder(staged("layers"));
  KvCache& kv = decoder.model().kv();
  const auto in_kv = [&] { return decoder.machine().memory.budget(Placement::dram).region_used[static_cast<std::size_t>(Region::kv)]; };
  const std::uint32_t sequence = kv.create();
  decoder.append(sequence, kTokens);
  EXPECT_EQ(in_kv(), kv.live_blocks() * kv.block_bytes() + KvStaging::bytes(kv.shape(), kv.live_blocks()));
}

}  // namespace
}  // namespace vitro
