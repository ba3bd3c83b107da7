#include "hw_models/dram/flow.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

struct Dram {
  explicit Dram(const char* bandwidth = "20 GB/s", const char* latency = "0 ns", const std::string& more = "") {
    const Node node =
        parse_yaml(std::string("{capacity: 1 GB, available: 1 GB, bandwidth: ") + bandwidth + ", latency: " + latency + more + "}", "t");
    Reader reader(node, "dram");
    const auto specs = FlowDram::params();
    params = Params(reader, specs);
    params.add_table(reader, "efficiency", false);
    reader.finish();
    model = std::make_unique<FlowDram>(Site{context, "dram", nullptr, kMemoryController}, params);
  }
  // Submits and remembers when it ended.
  void move(PortId port, Bytes length, Picoseconds* end, Picoseconds pace = Picoseconds(0), bool write = false) {
    model->submit({port, length, write ? length : 0, pace}, [this, end] { *end = context.now(); });
  }

  TestContext context;
  Params params;
  std::unique_ptr<FlowDram> model;
};

TEST(FlowDram, a_flow_alone_runs_at_the_cap_of_its_port) {
  Dram dram;
  const PortId port = dram.model->add_port({"a", {8e9}});
  Picoseconds end{0};
  dram.move(port, 8000, &end);
  dram.context.run();
  EXPECT_EQ(end, kUs);
}

TEST(FlowDram, a_pace_holds_to_the_picosecond_when_bandwidth_suffices) {
  Dram dram;
  const PortId port = dram.model->add_port({"a", {8e9}});
  for (const std::int64_t pace : {1'000'003LL, 7'777'777'777LL, 123'456'789'012LL}) {
    Picoseconds end{0};
    const Picoseconds begin = dram.context.now();
    dram.move(port, 4096, &end, Picoseconds(pace));
    dram.context.run();
    EXPECT_EQ((end - begin).count(), pace);
  }
}

TEST(FlowDram, no_request_ends_before_the_latency) {
  Dram dram("20 GB/s", "100 ns");
  const PortId port = dram.model->add_port({"a", {20e9}});
  Picoseconds end{0};
  dram.move(port, 64, &end);
  dram.context.run();
  EXPECT_EQ(end, 100 * kNs);
}

TEST(FlowDram, caps_hold_at_every_level_of_the_tree) {
  Dram dram;
  const PortId cpu = dram.model->add_port({"cpu", {12e9}});
  const PortId cluster = dram.model->add_port({"cluster", {10e9}, cpu});
  const PortId a = dram.model->add_port({"core a", {8e9}, cluster}), b = dram.model->add_port({"core b", {8e9}, cluster});
  Picoseconds end_a{0}, end_b{0};
  dram.move(a, 50'000, &end_a);
  dram.move(b, 50'000, &end_b);
  dram.context.run();
  EXPECT_EQ(end_a, 10 * kUs);  // 5 GB/s each, by the cluster's cap
  EXPECT_EQ(end_b, 10 * kUs);
}

TEST(FlowDram, all_bytes_of_random_traffic_arrive_and_never_above_the_total) {
  Dram dram("20 GB/s", "20 ns");
  std::vector<PortId> ports;
  for (int i = 0; i < 4; ++i) ports.push_back(dram.model->add_port({"p", {4e9 + 3e9 * i}}));
  Rng rng(3);
  std::vector<Picoseconds> ends(400);
  double sum = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    dram.context.run_until(dram.context.now() + Picoseconds(static_cast<std::int64_t>(rng.below(400'000))));
    const Bytes length = 1 + rng.below(20'000);
    sum += static_cast<double>(length);
    dram.move(ports[rng.below(4)], length, &ends[i], Picoseconds(static_cast<std::int64_t>(rng.below(2'000'000))), i % 3 == 0);
  }
  dram.context.run();
  for (const Picoseconds end : ends) EXPECT_GT(end.count(), 0);
  const DramTotals totals = dram.model->totals();
  EXPECT_NEAR(totals.bytes_read + totals.bytes_written, sum, 1e-3);
  EXPECT_GT(totals.bytes_written, 0);
  for (const double rate : dram.context.counters) EXPECT_LE(rate, 20.0 + 1e-9);
  EXPECT_NEAR(dram.model->bytes_moved(Picoseconds(0), dram.context.now()), sum, 1e-3 * sum);
}

// The same in the plainest way: at every change all shares of all ports are worked out anew, from the root down.
struct PlainDram {
  struct Port {
    double cap;
    std::size_t parent;
  };
  struct Flow {
    std::size_t port;
    double begin, bytes, limit, end = 0;
  };
  std::vector<Port> ports;  // parents first
  std::vector<Flow> flows;  // by begin

  double demand(std::size_t port, const std::vector<Flow*>& active) const {
    double sum = 0;
    for (const Flow* flow : active) sum += flow->port == port ? flow->limit : 0;
    for (std::size_t p = port + 1; p < ports.size(); ++p) sum += ports[p].parent == port ? demand(p, active) : 0;
    return std::min(sum, ports[port].cap);
  }
  void share(std::size_t port, double budget, const std::vector<Flow*>& active, std::map<Flow*, double>& rates) const {
    std::vector<Flow*> own;
    std::vector<std::size_t> below;
    std::vector<Claim> claims;
    for (Flow* flow : active) {
      if (flow->port == port) own.push_back(flow), claims.push_back({flow->limit, 1, 0});
    }
    for (std::size_t p = port + 1; p < ports.size(); ++p) {
      if (ports[p].parent == port) below.push_back(p), claims.push_back({demand(p, active), 1, 0});
    }
    std::vector<Claim*> order;
    for (Claim& claim : claims) order.push_back(&claim);
    share_fairly(order, budget);
    for (std::size_t i = 0; i < own.size(); ++i) rates[own[i]] = claims[i].share;
    for (std::size_t i = 0; i < below.size(); ++i) share(below[i], claims[own.size() + i].share, active, rates);
  }
  void run() {
    std::vector<Flow*> active;
    std::map<Flow*, double> rates;
    double now = 0;
    for (std::size_t next = 0; next < flows.size() || !active.empty();) {
      double until = next < flows.size() ? flows[next].begin : 1e9;
      for (Flow* flow : active) until = std::min(until, now + flow->bytes / rates[flow]);
      for (Flow* flow : active) flow->bytes -= rates[flow] * (until - now);
      now = until;
      for (Flow* flow : active) flow->end = now;
      std::erase_if(active, [](const Flow* flow) { return flow->bytes < 1e-6; });
      for (; next < flows.size() && flows[next].begin <= now; ++next) active.push_back(&flows[next]);
      share(0, ports[0].cap, active, rates);
    }
  }
};

TEST(FlowDram, rates_are_those_of_sharing_anew_at_every_change) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Dram dram;
    PlainDram plain{{{20e9, 0}}, {}};
    std::vector<PortId> ports;
    const auto add = [&](double cap, std::size_t parent) {
      ports.push_back(dram.model->add_port({"p", {cap}, PortId(parent)}));
      plain.ports.push_back({cap, parent});
    };
    add(12e9, 0), add(9e9, 0);
    add(8e9, 1), add(8e9, 1), add(20e9, 2), add(5e9, 2), add(4e9, 0);
    Rng rng(seed);
    std::vector<Picoseconds> ends(300);
    const std::uint64_t gap = 200'000 + 200'000 * seed;  // from crowded to mostly alone
    for (Picoseconds& end : ends) {
      dram.context.run_until(dram.context.now() + Picoseconds(static_cast<std::int64_t>(1 + rng.below(gap))));
      const Bytes length = 1 + rng.below(20'000);
      const std::size_t port = 3 + rng.below(5);
      const Picoseconds pace(static_cast<std::int64_t>(1 + rng.below(4'000'000)));
      dram.move(PortId(port), length, &end, pace);
      const auto bytes = static_cast<double>(length);
      plain.flows.push_back({port, to_seconds(dram.context.now()), bytes, std::min(bytes / to_seconds(pace), plain.ports[port].cap)});
    }
    dram.context.run();
    plain.run();
    for (std::size_t i = 0; i < ends.size(); ++i) ASSERT_NEAR(to_seconds(ends[i]), plain.flows[i].end, 1e-9) << seed << ": " << i;
  }
}

TEST(FlowDram, a_second_agent_never_makes_the_first_one_faster) {
  Rng rng(5);
  for (int trial = 0; trial < 50; ++trial) {
    const double cap_a = 2e9 + rng.uniform() * 20e9, cap_b = 2e9 + rng.uniform() * 20e9;
    const Bytes length = 1000 + rng.below(100'000), other = 1000 + rng.below(100'000);
    Picoseconds alone{0}, shared{0}, end{0};
    for (const bool both : {false, true}) {
      Dram dram;
      const PortId a = dram.model->add_port({"a", {cap_a}}), b = dram.model->add_port({"b", {cap_b}});
      dram.move(a, length, both ? &shared : &alone);
      if (both) dram.move(b, other, &end);
      dram.context.run();
    }
    EXPECT_GE(shared, alone);
  }
}

TEST(FlowDram, a_window_counts_only_what_moved_inside_it) {
  Dram dram;
  const PortId port = dram.model->add_port({"a", {1e9}});
  Picoseconds end{0};
  dram.move(port, 10'000'000, &end);  // 10 ms
  dram.context.run();
  EXPECT_NEAR(dram.model->bytes_moved(2 * kMs, 5 * kMs), 3'000'000, 1);
  EXPECT_NEAR(dram.model->peak_rate(Picoseconds(0), 10 * kMs), 1e9, 1e3);
}

TEST(FlowDram, without_a_part_the_bandwidth_is_what_it_is) {
  Dram dram;
  const PortId port = dram.model->add_port({"a", {40e9}});
  Picoseconds end{0};
  dram.model->submit({port, 20'000, 20'000, Picoseconds(0), kNextAddress, 64}, [&] { end = dram.context.now(); });
  dram.context.run();
  EXPECT_EQ(end, kUs);
}

TEST(FlowDram, a_part_makes_small_chunks_slow_and_its_own_total_hold) {
  double rates[2] = {};
  for (const Bytes chunk : {Bytes{0}, Bytes{64}}) {
    Dram dram("200 GB/s", "0 ns", ", part: lpddr5_6400");
    const PortId port = dram.model->add_port({"a", {200e9}});
    Picoseconds end{0};
    dram.model->submit({port, 1'000'000, 0, Picoseconds(0), kNextAddress, chunk}, [&] { end = dram.context.now(); });
    dram.context.run();
    rates[chunk != 0] = 1e6 / to_seconds(end);
  }
  const FlowEfficiency table = derived_flow_efficiency("lpddr5_6400");
  EXPECT_NEAR(rates[0], table.sequential().value, 1e6);
  EXPECT_NEAR(rates[1], table.sequential().value * table.of_reads({.length = 4096, .chunk = 64}), 1e6);
}

// Three streams on a memory that is the part's own, and on one that was measured to give less.
TEST(FlowDram, a_measured_total_contains_what_streams_cost_one_another) {
  const auto rate = [](const char* bandwidth) {
    Dram dram(bandwidth, "0 ns", ", part: lpddr5_6400");
    std::array<Picoseconds, 3> ends{};
    for (Picoseconds& end : ends) dram.move(dram.model->add_port({"a", {200e9}}), 1'000'000, &end);
    dram.context.run();
    return 3e6 / to_seconds(ends[2]);
  };
  EXPECT_NEAR(rate("48 GB/s"), 48e9, 1e6);
  EXPECT_LT(rate("200 GB/s"), 0.95 * derived_flow_efficiency("lpddr5_6400").sequential().value);
}

TEST(FlowDram, a_device_file_may_bring_efficiencies_of_its_own) {
  const char* table =
      ", efficiency: {kind: measured, source: \"a bench\", sequential: 10e9, chunk: {64: 0.2, 256: 0.6}, sequential_write: 0.5}";
  const auto rate = [&](Bytes chunk, bool write) {
    Dram dram("20 GB/s", "0 ns", table);
    const PortId port = dram.model->add_port({"a", {20e9}});
    Picoseconds end{0};
    dram.model->submit({port, 1'000'000, write ? Bytes{1'000'000} : 0, Picoseconds(0), kNextAddress, chunk},
                       [&] { end = dram.context.now(); });
    dram.context.run();
    return 1e6 / to_seconds(end);
  };
  EXPECT_NEAR(rate(0, false), 10e9, 1e6);
  EXPECT_NEAR(rate(64, false), 2e9, 1e6);
  EXPECT_NEAR(rate(128, false), 4e9, 1e6);  // half way in log2
  EXPECT_NEAR(rate(0, true), 5e9, 1e6);
}

TEST(FlowDram, written_bytes_of_a_request_count_as_such_and_turn_the_bus) {
  Dram dram("200 GB/s", "0 ns", ", part: lpddr5_6400");
  const PortId port = dram.model->add_port({"a", {200e9}});
  std::array<Picoseconds, 3> ends{};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Picoseconds begin = dram.context.now();
    Picoseconds& end = ends[i];
    dram.model->submit({port, 1'000'000, i * 250'000}, [&] { end = dram.context.now(); });
    dram.context.run();
    end -= begin;
  }
  EXPECT_LT(1.1 * to_seconds(ends[0]), to_seconds(ends[1]));
  EXPECT_LT(ends[1], ends[2]);
  EXPECT_NEAR(dram.model->totals().bytes_written, 750'000, 1e-3);
  EXPECT_NEAR(dram.model->totals().bytes_read, 2'250'000, 1e-3);
}

TEST(FlowDram, an_efficiency_of_zero_is_refused) {
  EXPECT_THROW(Dram("20 GB/s", "0 ns", ", efficiency: {sequential: 10e9, chunk: {64: 0}}"), ConfigError);
}

TEST(FlowDram, an_unknown_efficiency_is_named) {
  try {
    Dram dram("20 GB/s", "0 ns", ", efficiency: {sequential: 10e9, chnk: {64: 0.2}}");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("t:1: dram.efficiency.chnk.64: is not known (expected sequential, "), std::string::npos);
  }
}

}  // namespace
}  // namespace vitro::hw
