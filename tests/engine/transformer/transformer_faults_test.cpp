// What becomes of a step when a unit, the storage or the pool of keys and values fails, and the limits of a step.
#include "engine/transformer/transformer.hpp"
#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

DecoderSetup setup_of(const ModelConfig& config, const std::string& policy = "dense") {
  DecoderSetup setup;
  setup.config = config;
  setup.engine = engine_of(policy, 2);
  return setup;
}

// Fails call number `at`, and counts calls.
struct FailingCall {
  FailingCall(TestDecoder& decoder, std::uint64_t at) : failing(at) {
    decoder.function.before = [this](const KernelCall&) {
      if (calls++ == failing) throw RunError("unit lost");
    };
  }
  std::uint64_t failing, calls = 0;
};

std::string error_of_step(TestDecoder& decoder, StepInput input) {
  return message_of<RunError>([&] { decoder.step(std::move(input)); });
}

TEST(TransformerFaults, an_error_of_a_unit_ends_the_step_and_other_sequences_go_on) {
  for (const ModelConfig& config : {tiny_dense(), tiny_mixture()}) {
    TestDecoder decoder(setup_of(config));
    KvCache& kv = decoder.model().kv();
    const std::vector<std::int32_t> tokens{1, 20, 3};
    const auto expected = decoder.append(kv.create(), tokens);
    FailingCall count(decoder, kNever);
    decoder.append(kv.create(), tokens);
    Rng rng(1);
    for (int i = 0; i < 12; ++i) {
      const std::uint32_t kept = kv.create(), lost = kv.create();
      const Bytes used = decoder.machine().memory.budget(Placement::dram).used;
      FailingCall fault(decoder, i == 0 ? 0 : i == 1 ? count.calls - 1 : rng.below(count.calls));
      EXPECT_EQ(error_of_step(decoder, TestDecoder::appending(decoder.model(), lost, tokens)), "unit lost") << fault.failing;
      decoder.run(decoder.model().settle());
      kv.release(lost);
      EXPECT_EQ(decoder.machine().memory.budget(Placement::dram).used, used) << "memory of the step that failed came back";
      EXPECT_EQ(decoder.append(kept, tokens), expected) << "after call " << fault.failing << " failed";
      kv.release(kept);
    }
  }
}

// A policy that reads while it decodes, and the tokens' rows of an embedding that is left in flash.
TEST(TransformerFaults, an_error_of_the_storage_ends_the_step_with_its_message) {
  const auto fails = std::make_shared<bool>(false);
  for (const bool embedding : {false, true}) {
    DecoderSetup setup = setup_of(tiny_dense(), embedding ? "dense" : "mmap");
    setup.engine.weights.embedding_in_flash = embedding;
    setup.engine.weights.read_ahead = 2 * kPageSize;
    if (!embedding) setup.memory.ffn_in_dram = 0.5;
    VirtualMachineSpec spec = machine_spec(units_of(2), 3);
    spec.read_fault = [fails](const ReadRequest&) { return *fails ? Status{Code::io_error, "flash is gone"} : Status{}; };
    *fails = false;
    TestDecoder decoder(setup, spec);
    const std::uint32_t sequence = decoder.model().kv().create();
    decoder.append(sequence, {1});
    *fails = true;
    const std::string message = error_of_step(decoder, TestDecoder::appending(decoder.model(), sequence, {2}));
    EXPECT_NE(message.find("flash is gone"), std::string::npos) << message;
    decoder.run(decoder.model().settle());
  }
}

TEST(TransformerFaults, weights_that_can_not_be_loaded_are_named) {
  VirtualMachineSpec spec = machine_spec(units_of(1));
  spec.read_fault = [](const ReadRequest& request) { return request.from.offset > 0 ? Status{Code::io_error, "flash is gone"} : Status{}; };
  const std::string message = message_of<RunError>([&] { const TestDecoder decoder(DecoderSetup{}, spec); });
  EXPECT_EQ(message, "loading blk.0.attn_norm.weight: flash is gone");
}

TEST(TransformerFaults, a_full_pool_of_keys_and_values_is_an_error_with_its_place) {
  DecoderSetup setup;
  setup.limits = {16, 16, 16, 48, 1};  // of one sequence 16 positions, and what forks may waste: three blocks
  TestDecoder decoder(setup);
  KvCache& kv = decoder.model().kv();
  ASSERT_EQ(kv.shape().block_tokens, 16u);
  const std::vector<std::int32_t> block(16, 1);
  const std::uint32_t full = kv.create(), other = kv.create();
  const auto expected = decoder.append(other, {5, 6});
  decoder.append(full, block);
  decoder.append(full, block);
  const std::string message = error_of_step(decoder, TestDecoder::appending(decoder.model(), full, {1}));
  EXPECT_EQ(message.find("KV cache of sequence 0 at position 32: "), 0u) << message;
  decoder.run(decoder.model().settle());
  EXPECT_EQ(kv.length(full), 32u) << "as it was";
  decoder.append(other, {7});
  kv.release(full);
  EXPECT_EQ(decoder.append(kv.create(), {5, 6}), expected) << "its blocks serve the next one";
}

TEST(TransformerFaults, a_budget_without_room_for_activations_names_its_key) {
  for (const Bytes budget : {Bytes{0}, 16 * KiB, 64 * KiB, 110 * KiB}) {
    VirtualMachineSpec spec = machine_spec(units_of(1));
    spec.memory_limits = {budget, 0, 0, 0};
    const std::string message = message_of([&] { const TestDecoder decoder(DecoderSetup{}, spec); });
    EXPECT_EQ(message.find("memory.budget"), 0u) << budget << ": " << message;
  }
}

using TransformerDeathTest = testing::Test;

TEST(TransformerDeathTest, steps_beyond_what_was_asked_for_are_our_bugs) {
  DecoderSetup setup;
  setup.limits = {4, 2, 32, 32, 2};
  TestDecoder decoder(setup);
  const std::uint32_t sequence = decoder.model().kv().create();
  StepInput input = TestDecoder::appending(decoder.model(), sequence, {1, 2, 3, 4});
  input.sampled = {0, 3};
  EXPECT_EQ(decoder.step(input).size(), 2u) << "the most that is allowed";
  const auto dies = [&](StepInput bad, const char* why) { EXPECT_DEATH(decoder.step(std::move(bad)), why); };
  dies(TestDecoder::appending(decoder.model(), sequence, {1, 2, 3}), "beyond its limits");  // three sampled
  input = TestDecoder::appending(decoder.model(), sequence, {1, 2, 3, 4, 5});
  input.sampled.clear();
  dies(input, "beyond its limits");
  input = TestDecoder::appending(decoder.model(), sequence, {1});
  ++input.rows[0].position;
  dies(input, "continue their sequence");
  input = TestDecoder::appending(decoder.model(), sequence, {1});
  input.sampled_as = {{0, 0}, {1, 0}};
  dies(input, "one identity");
}

}  // namespace
}  // namespace vitro
