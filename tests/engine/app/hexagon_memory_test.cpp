// Runs whose weights lie in memory that the Hexagon's worker reads.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/engine/app/hexagon_run_kit.hpp"

namespace vitro::test {
namespace {

using testing::HasSubstr;
using HexagonMemory = HexagonRun;

// What the worker computes as files have it lies in memory once, and a new worker finds it there. All else is copied, and paid for.
TEST_F(HexagonMemory, weights_that_fit_are_shared_and_others_are_charged) {
  VITRO_NEEDS_HEXAGON();
  const auto run_with = [&](const char* units, const std::string& model, std::map<std::uint32_t, Fault> faults = {},
                            const char* budget = "4 GiB") {
    return run_engine({{"units", units}, {"activations", "fp16"}}, model, std::move(faults), budget);
  };
  const auto peak = [](const Json& result) { return result["metrics"]["peak_memory_bytes"].get<Bytes>(); };
  const Bytes weights = 4 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 768);  // of layers
  for (const std::string& model : {quantised("q4_0_tile"), std::string("f16")}) {
    const Json cpu = run_with("cpu0", model), hexagon = run_with("hexagon", model, {{kStruck, Fault::die_in_transfer}});
    EXPECT_EQ(hexagon["tokens"], cpu["tokens"]) << model;
    EXPECT_EQ(hexagon["counts"]["hexagon_operators"], kTokens * 4 * 7) << model;
    EXPECT_EQ(hexagon["counts"]["hexagon_copied_bytes"], 0) << model;
    EXPECT_EQ(hexagon["counts"]["hexagon_shared_bytes"], model == "f16" ? weights * 2 : weights / 32 * 18) << model;
    EXPECT_EQ(peak(hexagon), peak(cpu)) << model << ": the weights are there once";
  }
  const Json cpu = run_with("cpu0", "q4_0"), hexagon = run_with("hexagon", "q4_0");
  EXPECT_EQ(hexagon["tokens"], cpu["tokens"]);
  EXPECT_EQ(hexagon["counts"]["hexagon_shared_bytes"], 0);
  const Bytes copied = hexagon["counts"]["hexagon_copied_bytes"];
  EXPECT_GE(copied, weights / 32 * 18);
  EXPECT_GE(peak(hexagon), peak(cpu) + copied);
  EXPECT_LT(peak(hexagon), peak(cpu) + copied + 28 * kPageSize);
  // With room for the model, but not for its copies.
  const std::string less = std::to_string(peak(cpu) + copied / 2) + " B";
  EXPECT_EQ(run_with("cpu0", "q4_0", {}, less.c_str())["tokens"], cpu["tokens"]);
  EXPECT_THAT([&] { run_with("hexagon", "q4_0", {}, less.c_str()); },
              testing::ThrowsMessage<ConfigError>(testing::AllOf(HasSubstr("memory.budget"), HasSubstr("fixed in npu_mapped"))));
}

// TTS-NPU 8: an output matrix for which the first session has no room is in another one. No token depends on which share of it the worker
// has.
TEST_F(HexagonMemory, the_output_matrix_has_a_session_of_its_own) {
  VITRO_NEEDS_HEXAGON();
  session_ = 7 * MiB;  // seven eighths of it for weights: the 6 MiB of the layers, and no more
  const auto run_with = [&](const char* share, std::map<std::uint32_t, Fault> faults = {}) {
    const Json engine = {
        {"policy", "npu_dense"}, {"units", {"cpu0", "hexagon"}}, {"activations", "fp16"}, {"placement", {{"head", share}}}};
    return run_engine(engine, "f16", std::move(faults));
  };
  const auto sessions = [](const Json& result) {
    const auto notes = result["notes"].get<std::vector<std::string>>();
    return std::ranges::count(notes, "hexagon: 2 sessions");
  };
  const auto operators = [](const Json& result) { return result["counts"]["hexagon_operators"].get<std::uint32_t>(); };
  const Json cores = run("cpu0", "f16", {}, "fp16"), layers = run_with("0%");
  EXPECT_EQ(layers["tokens"], cores["tokens"]);
  EXPECT_EQ(operators(layers), kTokens * 4 * 7);
  EXPECT_EQ(sessions(layers), 0);
  const Bytes vocabulary = 1024, width = 256;
  for (const auto& [share, rows] : {std::pair{"50%", vocabulary / 2}, {"100%", vocabulary}}) {
    const Json more = run_with(share);
    EXPECT_EQ(more["tokens"], cores["tokens"]) << share;
    EXPECT_EQ(operators(more), kTokens * (4 * 7 + 1)) << share;
    EXPECT_EQ(more["counts"]["hexagon_copied_bytes"], rows * width * 2) << share;
    EXPECT_EQ(sessions(more), 1) << share;
  }
  EXPECT_EQ(run_with("100%", {{kStruck, Fault::die}})["tokens"], cores["tokens"]);
}

// PowerInfer-2's hot neurons: gathered from the arena and computed by the worker, with the bits of the core that takes over if it is lost.
TEST_F(HexagonMemory, hot_neurons_are_computed_by_the_worker) {
  VITRO_NEEDS_HEXAGON();
  struct Case {
    const char *model, *activations, *layout;
  };
  for (const Case& c : {Case{"q8_0", "int8", "auto"}, Case{"f16", "fp16", "auto"}, Case{"q4_0", "int8", "scales_inline"},
                        Case{"q4_0", "int8", "scales_resident"}, Case{"q4_0", "fp16", "scales_resident"}}) {
    const std::string what = fmt::format("{} {}", c.model, c.layout);
    const auto run_with = [&](const char* hot, std::map<std::uint32_t, Fault> faults = {}) {
      Json engine = {{"policy", "neuron_cluster"}, {"units", "cpu0"}, {"activations", c.activations}, {"layout", c.layout}};
      if (hot != nullptr) {
        engine["hybrid"] = {{"unit", "hexagon"}, {"cluster", 64}, {"splits", {{{"batch", 1}, {"hot", hot}, {"attention", "0%"}}}}};
      }
      return run_engine(std::move(engine), c.model, std::move(faults));
    };
    const Json cores = run_with(nullptr), hot = run_with("50%");
    ASSERT_EQ(hot["tokens"].size(), kTokens);
    EXPECT_EQ(hot["tokens"], cores["tokens"]) << what;
    // In each of 4 layers: the projections of the prompt; and Gate, Up and Down of the prompt and of each token but the last.
    EXPECT_EQ(hot["counts"]["hexagon_operators"], 4 * 4 + kTokens * 4 * 3) << what;
    const auto notes = hot["notes"].get<std::vector<std::string>>();
    EXPECT_GT(hot["counts"]["hexagon_hvx_packets"], 1000) << what;
    EXPECT_THAT(notes, testing::Not(testing::Contains(HasSubstr("with row offsets ran on the CPU"))));
    if (c.model != std::string_view("q8_0")) continue;
    const Json again = run_with("50%", {{9, Fault::die_computing}}), lost = run_with("50%", {{9, Fault::die}, {10, Fault::corrupt_result}});
    EXPECT_EQ(again["tokens"], hot["tokens"]);
    EXPECT_EQ(lost["tokens"], hot["tokens"]);
    EXPECT_LT(lost["counts"]["hexagon_operators"], hot["counts"]["hexagon_operators"].get<int>());
  }
}

}  // namespace
}  // namespace vitro::test
