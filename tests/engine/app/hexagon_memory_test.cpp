// Runs whose weights lie in memory that the Hexagon's worker reads.
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
    const Json cpu = run_with("cpu0", model), hexagon = run_with("hexagon", model, {{42, Fault::die_in_transfer}});
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

}  // namespace
}  // namespace vitro::test
