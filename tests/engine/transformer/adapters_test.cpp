// Adapters beside one base: a sequence gets the logits of its own adapter, whatever runs beside it, in any order and on any units, and
// these are the logits of weights that the adapter was merged into.
#include <cmath>

#include "engine/transformer/generator.hpp"
#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

using Logits = std::vector<std::vector<float>>;

const std::vector<Role> kMatrices{Role::attn_q,   Role::attn_k, Role::attn_v,   Role::attn_output,
                                  Role::ffn_gate, Role::ffn_up, Role::ffn_down, Role::output};

// The first adapts everything, the second two matrices; their ranks differ.
DecoderSetup adapted(const std::string& policy = "dense", std::uint32_t threads = 1) {
  DecoderSetup setup;
  setup.engine = engine_of(policy, threads);
  setup.adapters = {{4, 8, kMatrices, Format::f32}, {6, 6, {Role::attn_v, Role::ffn_down}, Format::f16}};
  return setup;
}

Logits logits_of(TestDecoder& decoder, std::uint32_t adapter, const std::vector<std::int32_t>& tokens) {
  const std::uint32_t sequence = decoder.model().kv().create(adapter);
  Logits all = decoder.append(sequence, {tokens.begin(), tokens.end() - 1});
  all.push_back(decoder.append(sequence, {tokens.back()}).front());
  return all;
}

double largest_difference(const Logits& a, const Logits& b) {
  double most = 0;
  for (std::size_t r = 0; r < a.size(); ++r) {
    for (std::size_t i = 0; i < a[r].size(); ++i) most = std::max(most, std::abs(double{a[r][i]} - double{b[r][i]}));
  }
  return most;
}

std::vector<std::int32_t> some_tokens() {
  Rng rng(3);
  return random_tokens(rng, 6, tiny_dense().vocab);
}

TEST(Adapters, each_one_and_none_give_logits_of_their_own) {
  TestDecoder decoder(adapted());
  const Logits none = logits_of(decoder, 0, some_tokens()), first = logits_of(decoder, 1, some_tokens());
  EXPECT_GT(largest_difference(none, first), 0.1);
  EXPECT_GT(largest_difference(first, logits_of(decoder, 2, some_tokens())), 0.1);
  TestDecoder plain(DecoderSetup{});
  EXPECT_EQ(logits_of(plain, 0, some_tokens()), none) << "beside adapters the base stays to the bit what it is";
  EXPECT_EQ(logits_of(decoder, 1, some_tokens()), first) << "another request switches back";
}

// Three sequences of three adapters in one step, first and last of them alike.
TEST(Adapters, sequences_of_one_step_get_the_logits_of_each_alone_to_the_bit) {
  for (const char* policy : {"dense", "mmap"}) {
    TestDecoder decoder(adapted(policy, 2));
    const std::vector<std::uint32_t> adapters{1, 0, 2, 1};
    Logits expected;
    StepInput mixed;
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      std::vector<std::int32_t> tokens = some_tokens();
      tokens.resize(3 + i % 2);
      expected.push_back(logits_of(decoder, adapters[i], tokens).back());
      const StepInput one = TestDecoder::appending(decoder.model(), decoder.model().kv().create(adapters[i]), tokens);
      mixed.rows.insert(mixed.rows.end(), one.rows.begin(), one.rows.end());
      mixed.tokens.insert(mixed.tokens.end(), one.tokens.begin(), one.tokens.end());
      mixed.sampled.push_back(static_cast<std::uint32_t>(mixed.rows.size() - 1));
    }
    decoder.step(mixed);
    EXPECT_EQ(decoder.logits(adapters.size()), expected) << policy;
  }
}

TEST(Adapters, units_and_times_change_no_bit) {
  Logits expected;
  for (std::uint32_t units = 1; units <= 3; ++units) {
    for (std::uint64_t timing = 1; timing <= 2; ++timing) {
      DecoderSetup setup = adapted("dense", units);
      setup.timing = timing;
      TestDecoder decoder(setup);
      const Logits got = logits_of(decoder, 1, some_tokens());
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << units << " units, timing " << timing;
    }
  }
}

TEST(Adapters, both_orders_of_multiplication_agree_up_to_rounding) {
  DecoderSetup setup = adapted("dense", 2);
  TestDecoder narrow(setup);
  setup.engine.lora.order = LoraOrder::ab_x;
  TestDecoder wide(setup);
  for (const std::uint32_t adapter : {1u, 2u}) {
    const Logits a = logits_of(narrow, adapter, some_tokens()), b = logits_of(wide, adapter, some_tokens());
    EXPECT_LT(largest_difference(a, b), 1e-4);
    EXPECT_NE(a, b) << "other products, other roundings";
  }
}

TEST(Adapters, a_batch_generates_what_each_sequence_generates_alone) {
  TestDecoder decoder(adapted("dense", 2));
  GenerationRequest request;
  Rng rng(9);
  request.prompt = random_tokens(rng, 9, tiny_dense().vocab);
  request.output_tokens = 6;
  request.prefill_chunk = 4;
  std::vector<std::vector<std::int32_t>> alone;
  for (const std::uint32_t adapter : {0u, 1u, 2u}) {
    request.adapters = {adapter};
    alone.push_back(decoder.run(generate(&decoder.machine(), &decoder.model(), request)).tokens.front());
  }
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_NE(alone[1], alone[2]);
  request.adapters = {2, 0, 1, 2, 0};
  request.sequences = 5;
  EXPECT_EQ(prompts_of(request), 3u);
  const GenerationResult together = decoder.run(generate(&decoder.machine(), &decoder.model(), request));
  for (std::size_t i = 0; i < request.adapters.size(); ++i) EXPECT_EQ(together.tokens[i], alone[request.adapters[i]]) << i;
  EXPECT_EQ(decoder.model().kv().live_blocks(), 0u);
}

TEST(Adapters, a_fork_has_the_adapter_of_its_origin) {
  TestDecoder decoder(adapted());
  KvCache& kv = decoder.model().kv();
  const std::uint32_t origin = kv.create(2), fork = kv.fork(origin);
  EXPECT_EQ(kv.adapter(fork), 2u);
  EXPECT_EQ(kv.adapter(kv.create()), 0u);
}

}  // namespace
}  // namespace vitro
