#include "hw_models/npu/transport.hpp"

#include <gtest/gtest.h>

#include "tests/hw_models/context.hpp"
#include "tests/hw_models/npu/device.hpp"
#include "tests/source_path.hpp"

namespace vitro::hw {
namespace {

const std::string kRound = "npu.message: 2 us, npu.poll: 1 us, npu.batch: 100, npu.remote_call: 90 us, npu.remote_return: 30 us, ";

Picoseconds small_call(const std::string& transport) {
  NpuBench bench(phone(kRound + "npu.call_cycles: 1000, npu.transport: " + transport));
  Work work;
  work.elementwise = 1;
  return bench.call(work);
}

TEST(Transport, a_mailbox_waits_half_a_poll_and_takes_a_message_per_operator) {
  NpuBench bench(phone(kRound + "npu.transport: mailbox"));
  EXPECT_EQ(bench.model().dispatch().wake_up, 2500 * kNs);
  EXPECT_EQ(bench.model().dispatch().hand_back, 2500 * kNs);
}

TEST(Transport, a_remote_call_costs_more_to_start_and_nothing_per_operator) {
  NpuBench bench(phone(kRound + "npu.transport: remote_call"));
  EXPECT_EQ(bench.model().dispatch().wake_up, 90 * kUs);
  EXPECT_EQ(bench.model().dispatch().hand_back, 30 * kUs);
}

TEST(Transport, batches_share_a_message_among_operators) {
  const Picoseconds remote = small_call("remote_call");
  EXPECT_EQ(small_call("mailbox") - remote, 2 * kUs);
  EXPECT_EQ(small_call("batched") - remote, 20 * kNs);
}

TEST(Transport, graphs_and_sessions_are_as_the_device_says) {
  NpuBench bench(phone("npu.build: 3 ms, npu.load: 2 ms, npu.switch_graph: 1 us, npu.session_limit: 2 GiB"));
  const DispatchCosts& dispatch = bench.model().dispatch();
  EXPECT_TRUE(dispatch.static_graphs);
  EXPECT_EQ(dispatch.build, 3 * kMs);
  EXPECT_EQ(dispatch.load, 2 * kMs);
  EXPECT_EQ(dispatch.switch_graph, 1 * kUs);
  EXPECT_EQ(dispatch.session_limit, 2 * GiB);
}

TEST(Generations, each_is_complete_and_old_ones_map_2_gib) {
  const Node device = phone();
  for (const std::string version : {"v69", "v73", "v75", "v79"}) {
    const Node npu = load_yaml(test::source_path("configs/npu/hexagon_" + version + ".yaml"));
    Node other = device;
    other.set("npu", npu);
    for (const char* fidelity : {"flow", "detailed"}) {
      NpuBench bench(other, fidelity);
      EXPECT_EQ(bench.model().dispatch().session_limit, version < "v75" ? 2 * GiB : Bytes{3'500'000'000});
      EXPECT_GT(bench.call(product(bench.model(), kQ4, 32, 4096, 4096)).count(), 0);
    }
    EXPECT_EQ(npu.to_json() == device.find("npu")->to_json(), version == "v75");
  }
}

}  // namespace
}  // namespace vitro::hw
