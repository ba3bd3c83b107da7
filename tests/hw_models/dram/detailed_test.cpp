#include <gtest/gtest.h>

#include <array>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/event_loop.hpp"

namespace vitro::hw {
namespace {

constexpr Picoseconds kUs{1'000'000};

struct Dram {
  explicit Dram(const DetailedDram::Limits& limits = {}) {
    const DramPart& part = dram_part("lpddr5_6400");
    auto memory = std::make_unique<DramChannels>(loop, 1, part.timing, part.organisation, "mop4", ControllerPolicy{});
    channels = memory.get();
    model = std::make_unique<DetailedDram>(Site{loop, "dram"}, std::move(memory), limits);
  }
  void move(const DramRequest& request, Picoseconds* end) {
    model->submit(request, [this, end] { *end = loop.now(); });
  }
  void run() {
    while (!loop.empty()) loop.step();
  }
  EventLoop loop;
  const DramChannels* channels = nullptr;
  std::unique_ptr<DetailedDram> model;
};

double seconds(Picoseconds t) { return to_seconds(t); }

TEST(DetailedDram, an_idle_dram_leaves_no_events_behind) {
  Dram dram;
  Picoseconds end{0};
  dram.move({dram.model->add_port({"a", {20e9}}), 100'000}, &end);
  dram.run();  // ends: refreshes of idle channels cost no events
  EXPECT_GT(end.count(), 0);
}

TEST(DetailedDram, caps_hold_at_every_level_of_the_tree) {
  Dram dram;
  const PortId cpu = dram.model->add_port({"cpu", {12e9}});
  const PortId cluster = dram.model->add_port({"cluster", {10e9}, cpu});
  const PortId a = dram.model->add_port({"core a", {8e9}, cluster}), b = dram.model->add_port({"core b", {8e9}, cluster});
  Picoseconds end_a{0}, end_b{0};
  dram.move({a, 500'000}, &end_a);
  dram.move({b, 500'000}, &end_b);
  dram.run();
  EXPECT_NEAR(1e6 / seconds(std::max(end_a, end_b)), 10e9, 0.1e9);
  EXPECT_NEAR(seconds(end_a), seconds(end_b), 0.02 * seconds(end_a));
}

TEST(DetailedDram, a_saturated_memory_is_shared_by_weight) {
  Dram dram;
  const PortId a = dram.model->add_port({"a", {1e12}, kMemoryController, 3}), b = dram.model->add_port({"b", {1e12}, kMemoryController, 1});
  Picoseconds end_a{0}, end_b{0};
  dram.move({a, 1'500'000}, &end_a);
  dram.move({b, 1'500'000}, &end_b);
  dram.run();
  // While both run, a gets three lines for one of b: b still has two thirds to go when a ends.
  EXPECT_NEAR(seconds(end_b) / seconds(end_a), (1.5 + 1.5) / 2.0, 0.12);
}

TEST(DetailedDram, no_request_ends_before_its_pace_or_the_fabric) {
  Dram dram({{0}, 512, Picoseconds(50'000)});
  const PortId port = dram.model->add_port({"a", {20e9}});
  Picoseconds paced{0}, quick{0};
  dram.move({port, 4096, 0, 10 * kUs}, &paced);
  dram.run();
  EXPECT_GE(paced, 10 * kUs);
  EXPECT_LT(paced, 10 * kUs + kUs / 10);
  const Picoseconds begin = dram.loop.now();
  dram.move({port, 32}, &quick);
  dram.run();
  EXPECT_GT(quick - begin, Picoseconds(50'000 + 19 * 1250));
}

TEST(DetailedDram, all_bytes_of_random_traffic_arrive_once) {
  Dram dram;
  std::vector<PortId> ports;
  for (int i = 0; i < 4; ++i) ports.push_back(dram.model->add_port({"p", {4e9 + 6e9 * i}}));
  Rng rng(3);
  std::vector<Picoseconds> ends(300);
  double sum = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    dram.loop.run_until(dram.loop.now() + Picoseconds(static_cast<std::int64_t>(rng.below(400'000))));
    DramRequest request{ports[rng.below(4)], 1 + rng.below(20'000)};
    request.written = i % 3 == 0 ? request.length : i % 3 == 1 ? rng.below(request.length) : 0;
    request.pace = Picoseconds(static_cast<std::int64_t>(rng.below(2'000'000)));
    if (i % 4 == 1) request.chunk = 100 + rng.below(5000);
    if (i % 4 == 2) {
      request.address = rng.below(1'000'000);
      request.chunk = 64;
      request.stride = 192;
    }
    sum += static_cast<double>(request.length);
    dram.move(request, &ends[i]);
  }
  dram.run();
  for (const Picoseconds end : ends) EXPECT_GT(end.count(), 0);
  const DramTotals totals = dram.model->totals();
  EXPECT_NEAR(totals.bytes_read + totals.bytes_written, sum, 1e-3);
  EXPECT_NEAR(dram.model->bytes_moved(Picoseconds(0), dram.loop.now()), sum, 1e-6 * sum);
  EXPECT_LE(dram.model->peak_rate(Picoseconds(0), dram.loop.now()), dram.channels->peak().value);
}

TEST(DetailedDram, written_bytes_of_a_request_count_as_such_and_turn_the_bus) {
  std::array<Picoseconds, 3> ends{};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Dram dram;
    dram.move({dram.model->add_port({"a", {200e9}}), 1'000'000, i * 250'000}, &ends[i]);
    dram.run();
    EXPECT_NEAR(dram.model->totals().bytes_written, i * 250'000.0, 1e-3);
    EXPECT_NEAR(static_cast<double>(dram.channels->counts().writes) * 32, i * 250'000.0, 32);
  }
  EXPECT_LT(1.1 * seconds(ends[0]), seconds(ends[1]));
  EXPECT_LT(ends[1], ends[2]);
}

TEST(DetailedDram, a_total_below_the_parts_own_holds_for_all_ports_together) {
  Dram dram({{10e9}, 512, {}});
  const PortId a = dram.model->add_port({"a", {40e9}}), b = dram.model->add_port({"b", {40e9}});
  Picoseconds end_a{0}, end_b{0};
  dram.move({a, 500'000}, &end_a);
  dram.move({b, 500'000, 500'000}, &end_b);
  dram.run();
  EXPECT_NEAR(1e6 / seconds(std::max(end_a, end_b)), 10e9, 0.1e9);
}

}  // namespace
}  // namespace vitro::hw
