#include <gtest/gtest.h>

#include <map>

#include "hw_models/dram/controller.hpp"

namespace vitro::hw {
namespace {

struct Channel {
  explicit Channel(RefreshPolicy refresh = RefreshPolicy::none) {
    policy.refresh = refresh;
    controller.emplace(part.timing, part.organisation, policy);
  }
  void push(std::uint32_t tag, std::uint32_t group, std::uint32_t row, bool write = false, Cycle now = 0) {
    controller->push({0, 0, group, 0, row, 0}, write, tag, now);
  }
  // Serves everything; the cycle of each line's last beat, and the order of service.
  std::map<std::uint32_t, Cycle> run() {
    std::map<std::uint32_t, Cycle> ends;
    DramController::Finished finished{};
    while (!controller->idle()) {
      if (!controller->step(controller->next(), finished)) continue;
      ends[finished.tag] = finished.cycle;
      order.push_back(finished.tag);
    }
    return ends;
  }
  const DramPart& part = dram_part("lpddr5_6400");
  ControllerPolicy policy;
  std::optional<DramController> controller;
  std::vector<std::uint32_t> order;
};

TEST(DramController, a_closed_bank_takes_an_activation_a_hit_none_a_conflict_a_precharge) {
  Channel channel;
  channel.push(0, 0, 5);
  EXPECT_EQ(channel.run()[0], 1 + 15 + 19);  // served from the cycle after its arrival
  channel.push(1, 0, 5, false, 200);
  EXPECT_EQ(channel.run()[1], 201 + 19);
  channel.push(2, 0, 6, false, 400);
  EXPECT_EQ(channel.run()[2], 401 + 15 + 15 + 19);
}

TEST(DramController, hits_are_served_before_an_older_conflict_is_ready_and_never_preempted_by_a_younger_one) {
  Channel channel;
  channel.push(0, 0, 1);
  channel.push(1, 0, 1);
  channel.push(2, 0, 2);
  channel.push(3, 0, 1);
  const auto ends = channel.run();
  EXPECT_EQ(channel.order, (std::vector<std::uint32_t>{0, 1, 3, 2}));
  EXPECT_EQ(channel.controller->counts().activates, 2u);
  EXPECT_GT(ends.at(2), ends.at(1) + 15 + 15);
}

TEST(DramController, two_groups_alternate_on_the_bus) {
  Channel channel;
  for (std::uint32_t i = 0; i < 16; ++i) channel.push(i, i / 8, 1);
  const auto ends = channel.run();
  Cycle last = 0;
  for (const auto& [tag, end] : ends) last = std::max(last, end);
  // The second group starts tRRD after the first; from then on the data bus has no gap.
  EXPECT_LE(last, 1 + 15 + 19 + 2 * 16 + 4);
}

TEST(DramController, writes_wait_for_reads_until_their_queue_is_nearly_full) {
  Channel channel;
  channel.push(100, 0, 1);
  for (std::uint32_t i = 0; i < 25; ++i) channel.push(i, 1, 1, true);
  channel.push(101, 0, 1);
  channel.run();
  EXPECT_EQ(channel.order[0], 100u);
  EXPECT_EQ(channel.order[1], 101u);
  Channel full;
  full.push(100, 0, 1);
  for (std::uint32_t i = 0; i < 26; ++i) full.push(i, 1, 1, true);  // 26 of 32 is above 80 %
  full.push(101, 0, 1);
  full.run();
  EXPECT_EQ(full.order[0], 0u);
  const auto read = std::find(full.order.begin(), full.order.end(), 100u) - full.order.begin();
  EXPECT_EQ(read, 20);  // down to 20 %: 6 writes are left
}

TEST(DramController, a_full_queue_takes_no_more) {
  Channel channel;
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_TRUE(channel.controller->has_room(false));
    channel.push(i, 0, i);
  }
  EXPECT_FALSE(channel.controller->has_room(false));
  EXPECT_TRUE(channel.controller->has_room(true));
}

TEST(DramController, all_bank_refresh_comes_every_trefi_and_closes_rows) {
  Channel channel(RefreshPolicy::all_bank);
  const Cycle refi = channel.part.timing.refi;
  channel.push(0, 0, 1);
  channel.run();
  channel.push(1, 0, 1, false, refi - 10);  // still a hit
  EXPECT_EQ(channel.run()[1], refi - 9 + 19);
  channel.push(2, 0, 1, false, refi + 1);  // the refresh of the idle time came first
  EXPECT_EQ(channel.run()[2], refi + 17 + 224 + 15 + 19);
  channel.push(3, 0, 1, false, 5 * refi + 1000);
  channel.run();
  EXPECT_EQ(channel.controller->counts().refreshes, 5u);
}

TEST(DramController, a_due_refresh_holds_back_a_stream_of_hits) {
  Channel channel(RefreshPolicy::all_bank);
  const Cycle refi = channel.part.timing.refi;
  DramController::Finished finished{};
  std::uint32_t tag = 0;
  std::vector<Cycle> ends;
  channel.push(tag++, 0, 1);
  while (ends.empty() || ends.back() < 2 * refi) {
    const Cycle now = channel.controller->next();
    if (!channel.controller->step(now, finished)) continue;
    ends.push_back(finished.cycle);
    channel.push(tag++, 0, 1, false, now);
  }
  Cycle gap = 0;
  for (std::size_t i = 1; i < ends.size(); ++i) gap = std::max(gap, ends[i] - ends[i - 1]);
  EXPECT_GE(gap, 17 + 224 + 15);
  EXPECT_EQ(channel.controller->counts().refreshes, 1u);
}

TEST(DramController, per_bank_refreshes_of_an_idle_time_are_counted_bank_by_bank) {
  Channel channel(RefreshPolicy::per_bank);
  const Cycle interval = channel.part.timing.refi_pb;
  channel.push(0, 0, 1);
  channel.run();
  channel.push(1, 0, 1, false, 40 * interval + 300);
  channel.run();
  EXPECT_EQ(channel.controller->counts().refreshes, 40u);
}

}  // namespace
}  // namespace vitro::hw
