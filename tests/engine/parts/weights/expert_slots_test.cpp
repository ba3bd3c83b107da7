// How many slots there are, what stays in them for good, and what is refused.
#include "tests/engine/parts/weights/expert_kit.hpp"

namespace vitro::cached_experts {
namespace {

class ExpertSlots : public CachedExperts {};

TEST_F(ExpertSlots, where_all_fit_they_are_read_at_load) {
  make({});
  Bytes all = 0;
  for (std::uint32_t matrix = 0; matrix < kMatrices; ++matrix) all += read_of(matrix);
  EXPECT_EQ(loaded_, all);
  run(drawn(3, 3, true));
  EXPECT_EQ(read_since_load(), 0u);
  EXPECT_EQ(residency_->stats().misses, 0u);
}

TEST_F(ExpertSlots, what_stays_for_good_is_read_once_and_is_where_the_view_says) {
  make({.budget = 7 * kExpert});
  ASSERT_GT(residency_->keepable(), 0u);
  host_->run(residency_->keep(1, 2));
  ASSERT_TRUE(is_in_place(kRolesOf, 2));
  trace_.made.clear();
  loaded_ = host_->machine().storage.totals().bytes_read;
  run(std::vector<Step>(2, Step{{{0, 1, 2, 3}, {2}, {0, 1, 2, 3}}, {{}, {}, {}}}));
  EXPECT_EQ(function_.wrong, 0);
  EXPECT_EQ(read_since_load(), decided());
  for (const std::string& made : trace_.made) EXPECT_EQ(made.find("evict w3 expert 2"), made.npos);
}

TEST_F(ExpertSlots, as_many_stay_as_it_says_and_a_layer_still_passes_through) {
  make({.budget = 7 * kExpert});
  std::uint32_t kept = 0;
  for (; residency_->keepable() > 0; ++kept) host_->run(residency_->keep(1, static_cast<std::uint16_t>(kept)));
  EXPECT_EQ(kept, 3u) << "of 7 slots, 4 of which a layer's experts may want at once";
  run(std::vector<Step>(2, Step{{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}, {{}, {}, {}}}));
  EXPECT_EQ(function_.wrong, 0);
}

// What is kept may be on its way, or take the slot of something that is.
TEST_F(ExpertSlots, what_is_kept_is_there_whatever_was_on_its_way) {
  make({.budget = 7 * kExpert, .delay = late(1, 2, Picoseconds(1'000'000)), .window = 2});
  residency_->foresee(1, {choice({0, 1, 2, 3})});
  residency_->foresee(2, {choice({0, 1, 2})});
  host_->run(keep_and_look());
  host_->executor().run();
  for (std::uint32_t role = 0; role < kRolesOf; ++role) EXPECT_TRUE(is_in_place(kRolesOf + role, 2) && is_in_place(role, 0)) << role;
}

TEST_F(ExpertSlots, below_one_expert_it_refuses_and_says_what_is_needed) {
  for (const Given& given : {Given{.budget = kExpert - 1}, Given{.memory = kExpert - 1}}) {
    try {
      make(given);
      FAIL();
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("memory.budget: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("smallest working set"), std::string::npos) << error.what();
    }
  }
}

TEST_F(ExpertSlots, more_experts_at_once_than_there_are_slots_are_refused) {
  make({.budget = 2 * kExpert});
  WorkItem three = item(0, 0);
  for (const std::uint32_t expert : {1u, 2u}) three.uses.push_back(item(0, expert).uses.front());
  UnitQueues queues(1);
  queues[0].push_back(three);
  EXPECT_THROW(residency_->check_room(queues), ConfigError);
  queues[0].front().uses.pop_back();
  EXPECT_NO_THROW(residency_->check_room(queues));
}

}  // namespace
}  // namespace vitro::cached_experts
