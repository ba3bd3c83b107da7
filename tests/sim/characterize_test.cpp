#include "sim/characterize/characterize.hpp"

#include <gmock/gmock.h>

#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

using testing::HasSubstr;

double measure(const Node& device, const std::string& probe, const std::string& args, std::string_view wanted) {
  FreshContext context;
  for (const auto& [name, value] : run_probe(device, probe, parse_yaml(args, "args")).measures) {
    if (name == wanted) return value;
  }
  ADD_FAILURE() << probe << " does not measure " << wanted;
  return 0;
}

// The round device: cores of 10 GB/s and 1 multiply-add per cycle at 1 GHz, 16 GB/s together; NPU and DRAM 20 GB/s.
TEST(Characterize, streams_reach_the_port_that_they_share) {
  const Node device = round_device({"core.macs_per_cycle_otherwise=1000"});
  const auto bandwidth = [&](const std::string& units) {
    return measure(device, "memory_bandwidth", "{units: " + units + ", variant: float, format: f32, n: 4096, k: 4096}", "bytes_per_second");
  };
  EXPECT_NEAR(bandwidth("[cpu0]"), 10e9, 1e7);
  EXPECT_NEAR(bandwidth("[big]"), 16e9, 1e7);
}

TEST(Characterize, a_product_takes_its_multiply_adds) {
  const std::string args = "{unit: cpu0, variant: float, format: f32, m: 64, n: 64, k: 64}";
  EXPECT_NEAR(measure(round_device({"core.cycles_per_row_run=0", "core.wake_up=3 us"}), "gemm", args, "flop_per_second"), 2e9, 1e6);
}

TEST(Characterize, a_prompt_is_shared_by_all_cores) {
  const Node device = round_device({"core.cycles_per_row_run=0"});
  const std::string args = "variant: float, format: f32, m: 64, hidden: 256, ffn: 512, layers: 2}";
  const double macs_per_token = 2.0 * (4 * 256 * 256 + 3 * 256 * 512);
  EXPECT_NEAR(measure(device, "prompt_matmuls", "{units: [cpu0], " + args, "tokens_per_second"), 1e9 / macs_per_token, 1);
  EXPECT_NEAR(measure(device, "prompt_matmuls", "{units: [big], " + args, "tokens_per_second"), 2e9 / macs_per_token, 2);
}

TEST(Characterize, one_read_at_a_time_costs_issue_latency_and_transfer) {
  const std::string args = "{block: 4 KiB, range: 1 MiB, pattern: random, depth: 1, reads: 100, issuers: [big]}";
  EXPECT_NEAR(measure(round_device(), "flash_read", args, "seconds_per_read"), 12e-6, 1e-9);  // 1 + 10 + 1 us
}

TEST(Characterize, splitting_over_cores_and_a_graph_unit_is_refused) {
  try {
    measure(round_device(), "prompt_matmuls", "{units: [big, npu], variant: float, format: f32, hidden: 32, ffn: 32, layers: 1}", "");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("policy"));
  }
}

}  // namespace
}  // namespace vitro::sim
