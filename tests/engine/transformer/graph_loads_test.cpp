// Graphs of accelerators are there when a step launches them, tokens do not depend on when they are loaded, and what is listed is loaded.
#include <set>

#include "engine/transformer/generator.hpp"
#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

constexpr const char* kBeside = R"("placement": {"units": ["cpu0", "cpu1"], "unit": "npu", "prefill": false,
                                   "splits": [{"batch": 1, "attention": "50%", "head": "50%"},
                                              {"batch": 4, "attention": "100%", "head": "50%"}])";

std::string beside(const std::string& more = "", const std::string& order = "chunks") {
  return R"({"policy": "dense", "prefill_chunk": 5, "prefill_order": ")" + order + "\", " + kBeside + more + "}}";
}
std::string offloading(const std::string& more = "") {
  return R"({"policy": "dense", "placement": {"kind": "matmuls", "units": ["cpu0"], "unit": "npu")" + more + "}}";
}

// Loads take a time: what has begun is not there yet.
VirtualMachineSpec spec_of(std::uint64_t timing) { return machine_spec(units_of(2, {"npu"}), timing); }

struct Generated {
  std::vector<std::vector<std::int32_t>> tokens;
  GraphLoads loads;
};

// Four sequences that end one by one.
Generated generated(const std::string& engine, std::uint64_t timing = 1) {
  DecoderSetup setup;
  setup.engine = read_engine_text(engine);
  setup.limits.prompt_rows = 11;
  TestDecoder decoder(setup, spec_of(timing));
  Rng rng(5);
  GenerationRequest request;
  request.prompt = random_tokens(rng, 11, setup.config.vocab);
  request.prefill_chunk = 5;  // no size of a decode step
  request.sequences = 4;
  request.lengths = {2, 9, 6, 4};
  request.output_tokens = 9;
  const GenerationResult result = decoder.run(generate(&decoder.machine(), &decoder.model(), std::move(request)));
  return {result.tokens, decoder.model().graph_loads()};
}

TEST(GraphLoads, no_launch_waits_and_none_is_for_nothing) {
  for (const auto& [ahead_of, needed_of] : {std::pair{beside(), beside(R"(, "graphs": "needed")")},
                                            std::pair{beside("", "layers"), beside(R"(, "graphs": "needed")", "layers")},
                                            std::pair{offloading(), offloading(R"(, "graphs": "needed")")}}) {
    for (std::uint64_t timing = 1; timing <= 4; ++timing) {
      const Generated ahead = generated(ahead_of, timing), needed = generated(needed_of, timing);
      EXPECT_EQ(ahead.tokens, needed.tokens);
      EXPECT_EQ(needed.loads.waits, needed.loads.loads) << "each is loaded by the launch that lacks it";
      EXPECT_GT(needed.loads.waits, 4u);
      EXPECT_EQ(ahead.loads.waits, 0u) << ahead_of;
      EXPECT_EQ(ahead.loads.loads, needed.loads.loads) << "none that nobody launches";
    }
  }
}

TEST(GraphLoads, what_is_listed_is_loaded_from_the_start_or_at_the_change_and_nothing_else_is) {
  const auto loads_of = [](const std::string& listed) {
    DecoderSetup setup;
    setup.engine = read_engine_text(beside(R"(, "graphs": )" + listed));
    TestDecoder decoder(setup, spec_of(1));
    return decoder.model().graph_loads().loads;
  };
  EXPECT_EQ(loads_of("[]"), 0u);
  EXPECT_EQ(loads_of(R"([{"batch": 2, "loaded": "at_change"}])"), 0u);
  const std::uint64_t one = loads_of(R"([{"batch": 1, "loaded": "from_start"}])");
  EXPECT_GT(one, 0u);
  EXPECT_EQ(loads_of(R"([{"batch": 1, "loaded": "from_start"}, {"batch": 3, "loaded": "from_start"}])"), 2 * one);
  EXPECT_EQ(loads_of(R"([{"batch": 1, "loaded": "from_start"}, {"batch": 99, "loaded": "from_start"}])"), one) << "no step is so large";
  const Generated all = generated(beside()), none = generated(beside(R"(, "graphs": [])"));
  EXPECT_EQ(all.tokens, none.tokens);
  EXPECT_GT(none.loads.waits, all.loads.waits);
  EXPECT_LE(none.loads.loads, all.loads.loads);
}

}  // namespace
}  // namespace vitro
