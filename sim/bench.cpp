#include "sim/bench.hpp"

#include <algorithm>
#include <queue>

#include "hw_models/dram/probe.hpp"
#include "hw_models/registry.hpp"
#include "hw_models/ufs/probe.hpp"
#include "sim/executor.hpp"

namespace vitro::sim {
namespace {

// Devices that wait for a while, again and again: what a flow model's events look like. Delays differ, so that no two
// events are due at once, and come from one sequence, so that both loops below do the same work.
constexpr std::uint32_t kDevices = 64;
Picoseconds delay(std::uint64_t n) { return Picoseconds(static_cast<std::int64_t>(1000 + (n * 0x9e3779b97f4a7c15u >> 44))); }

struct Waiter {
  Waiter(SimExecutor& e, std::uint64_t n) : executor(e), count(n) {}
  void tick() {
    if (served++ >= count) return;
    executor.at(executor.device_now() + delay(served), {1, 0}, [this] { tick(); });
  }
  SimExecutor& executor;
  std::uint64_t count, served = 0;
};

Task<void> outlast(Executor* executor, Picoseconds end) { co_await sleep_until(*executor, end); }

double executor_rate(std::uint64_t count, const Clock& clock) {
  SimExecutor executor;
  Waiter waiter(executor, count);
  for (std::uint32_t device = 0; device < kDevices; ++device) waiter.tick();
  Task<void> task = outlast(&executor, Picoseconds(static_cast<std::int64_t>(count) << 20));
  const Picoseconds begin = clock.now();
  executor.run(task);
  return static_cast<double>(executor.events()) / to_seconds(clock.now() - begin);
}

// The least that can be done: times and payloads in a std::priority_queue, no clock, no order of equals, no hash.
double bare_rate(std::uint64_t count, const Clock& clock) {
  struct Event {
    std::int64_t when;
    std::uint64_t* payload;
    bool operator>(const Event& other) const { return when > other.when; }
  };
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
  std::uint64_t served = 0;
  for (std::uint32_t device = 0; device < kDevices; ++device) queue.push({delay(++served).count(), &served});
  std::uint64_t events = 0;
  const Picoseconds begin = clock.now();
  for (; !queue.empty(); ++events) {
    const Event event = queue.top();
    queue.pop();
    if ((*event.payload)++ < count) queue.push({event.when + delay(*event.payload).count(), event.payload});
  }
  return static_cast<double>(events) / to_seconds(clock.now() - begin);
}

BenchRow detailed_dram(bool smoke, const Clock& clock) {
  const hw::Registry registry = hw::builtin_models();
  const Node node = Node::map({{"fidelity", Node::scalar("detailed")},
                               {"part", Node::scalar("lpddr5x_8533")},
                               {"bandwidth", Node::scalar("1000 GB/s")},
                               {"capacity", Node::scalar("8 GB")},
                               {"available", Node::scalar("8 GB")}});
  Reader reader(node, "dram");
  const hw::Entry<hw::DramModel>& entry = registry.dram(reader, "lpddr");
  const hw::Params params(reader, entry.params);
  hw::EventLoop loop;
  const std::unique_ptr<hw::DramModel> dram = entry.make({loop, "dram"}, params);
  hw::DramAgent agent{.name = "reader", .request = 64, .outstanding = 256};
  const Picoseconds begin = clock.now();
  const hw::DramProbeResult result = hw::probe(*dram, loop, {agent}, Picoseconds(0), from_seconds(smoke ? 1e-5 : 5e-3));
  return {"sim.dram_detailed", static_cast<double>(result.agents[0].requests) / to_seconds(clock.now() - begin), "requests of 64 B/s"};
}

BenchRow detailed_ufs(const Node& storage, bool smoke, const Clock& clock) {
  Node node = storage;
  node.set("fidelity", Node::scalar("detailed"));
  hw::StorageProbe probe;
  probe.commands = smoke ? 100 : 200'000;
  probe.warm_up = 0;
  const Picoseconds begin = clock.now();
  hw::run(node, probe);
  return {"sim.ufs_detailed", static_cast<double>(probe.commands) / to_seconds(clock.now() - begin), "4 KiB reads/s"};
}

}  // namespace

std::vector<BenchRow> bench_simulation(const Node& storage, bool smoke, const Clock& clock) {
  const std::uint64_t count = smoke ? 10'000 : 4'000'000;
  bare_rate(count / 10, clock);  // the processor's clock comes up
  BenchRow events{"sim.executor", executor_rate(count, clock), "events/s", bare_rate(count, clock)};
  events.fraction_of_limit = events.value / *events.limit;
  return {events, detailed_dram(smoke, clock), detailed_ufs(storage, smoke, clock)};
}

}  // namespace vitro::sim
