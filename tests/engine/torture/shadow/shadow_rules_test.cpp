// What a cache may tell its rule of eviction, and what the rule may answer.
#include "engine/torture/shadow/shadow_rules.hpp"

#include <gmock/gmock.h>

namespace vitro {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool none(std::uint32_t) { return false; }

// A rule that answers what a test says.
class Told final : public Eviction {
 public:
  void insert(std::uint32_t) override {}
  void touch(std::uint32_t) override {}
  void erase(std::uint32_t) override {}
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>&) override { return answer; }
  std::vector<std::uint32_t> next_token() override { return left; }
  std::optional<std::uint32_t> answer;
  std::vector<std::uint32_t> left;
};

struct Bench {
  explicit Bench(bool by_neuron = true) : shadow(by_neuron, nullptr) {
    auto told = std::make_unique<Told>();
    rule = told.get();
    watched = std::make_unique<WatchedRule>(std::move(told), EvictionOptions{.blocks = 9, .capacity = 2}, shadow);
  }
  ShadowRules shadow;
  Told* rule;
  std::unique_ptr<WatchedRule> watched;
};

TEST(ShadowRules, let_a_cache_pass_that_keeps_to_its_room) {
  Bench bench;
  bench.watched->insert(1);
  bench.watched->insert(2);
  bench.watched->next_layer();
  bench.rule->answer = 1;
  bench.watched->newcomer(3);
  EXPECT_EQ(bench.watched->victim(none), 1u);
  bench.watched->erase(1);
  bench.watched->insert(3);
  bench.watched->touch(3);
  EXPECT_THAT(bench.shadow.findings(), ElementsAre());
  EXPECT_GT(bench.shadow.calls, 4u);
}

TEST(ShadowRules, refuse_one_block_too_many) {
  Bench bench;
  for (const std::uint32_t block : {1, 2, 3}) bench.watched->insert(block);
  EXPECT_THAT(bench.shadow.findings(), ElementsAre("3 blocks are resident, and there is room for 2"));
}

TEST(ShadowRules, count_hot_neurons_which_their_rule_no_longer_knows) {
  Bench bench;
  bench.watched->insert(1);
  bench.watched->erase(1);  // hot
  bench.watched->insert(2);
  bench.watched->insert(3);
  EXPECT_THAT(bench.shadow.findings(), ElementsAre("3 blocks are resident, and there is room for 2"));
  Bench experts(false);
  experts.watched->insert(1);
  experts.watched->erase(1);  // given up
  experts.watched->insert(2);
  experts.watched->insert(3);
  EXPECT_THAT(experts.shadow.findings(), ElementsAre());
}

// Where the rule has nothing to give up, something may go for a newcomer that has to stay; else what leaves the rule has become hot.
TEST(ShadowRules, tell_what_goes_for_a_newcomer_from_what_becomes_hot) {
  Bench bench;
  bench.watched->insert(1);
  bench.watched->insert(2);
  bench.watched->newcomer(3);
  bench.watched->victim_at_any_price(none);
  bench.watched->erase(1);
  bench.watched->insert(3);
  EXPECT_THAT(bench.shadow.findings(), ElementsAre()) << "1 went for 3";
  bench.watched->next_layer();
  bench.watched->newcomer(4);
  bench.watched->victim_at_any_price(none);
  bench.watched->erase(2);  // hot, and 4 did not stay
  bench.watched->insert(2);
  bench.rule->answer = 2;
  bench.watched->victim(none);
  EXPECT_THAT(bench.shadow.findings(), ElementsAre()) << "2 did not come for this layer";
}

// Admission may keep the victim of its rule and refuse the newcomer. What becomes hot after that did not go.
TEST(ShadowRules, tell_a_victim_that_went_from_one_that_became_hot) {
  Bench bench;
  bench.watched->insert(1);
  bench.watched->insert(2);
  bench.watched->next_layer();
  bench.rule->answer = 1;
  bench.watched->newcomer(3);
  bench.watched->victim(none);  // refused
  bench.watched->next_layer();
  bench.watched->erase(1);  // hot
  bench.watched->next_layer();
  bench.watched->insert(1);  // cold
  bench.watched->victim(none);
  EXPECT_THAT(bench.shadow.findings(), ElementsAre()) << "1 did not come for this layer";
  bench.watched->erase(1);
  bench.watched->insert(3);
  bench.watched->erase(2);  // hot
  bench.watched->insert(4);
  EXPECT_THAT(bench.shadow.findings(), ElementsAre("3 blocks are resident, and there is room for 2"));
}

TEST(ShadowRules, refuse_what_comes_twice_and_what_is_not_there) {
  Bench bench;
  bench.watched->insert(1);
  bench.watched->insert(1);
  bench.watched->touch(4);
  bench.watched->erase(5);
  bench.watched->newcomer(1);
  EXPECT_THAT(bench.shadow.findings(),
              ElementsAre(HasSubstr("1 came, and was resident"), HasSubstr("4 is used"), HasSubstr("5 is given up"), HasSubstr("to come")));
}

TEST(ShadowRules, refuse_a_victim_that_is_not_there_or_held_or_came_for_the_layer_in_work) {
  Bench bench;
  bench.watched->insert(1);
  bench.rule->answer = 7;
  bench.watched->victim(none);
  bench.rule->answer = 1;
  bench.watched->victim(none);
  bench.watched->next_layer();
  bench.watched->victim([](std::uint32_t) { return true; });
  EXPECT_THAT(bench.shadow.findings(), ElementsAre(HasSubstr("7 is the one to go, and is not resident"),
                                                   HasSubstr("1 is the one to go, and came for the layer in work"),
                                                   HasSubstr("1 is the one to go, and is held")));
}

TEST(ShadowRules, refuse_to_give_up_with_a_token_what_is_not_there) {
  Bench bench;
  bench.rule->left = {6};
  bench.watched->next_token();
  EXPECT_THAT(bench.shadow.findings(), ElementsAre(HasSubstr("6 is given up with its token, and is not resident")));
}

TEST(ShadowRules, stand_before_every_rule_while_they_live) {
  const std::vector<std::string> names = evictions().names();
  {
    ShadowRules shadow(true, nullptr);
    EXPECT_EQ(evictions().names(), names);
    NeuronCache cache(8, 2, 2, "step_lru");
    for (std::uint32_t block = 0; block < 3; ++block) {
      const std::uint32_t slot = cache.take_slot();
      if (!cache.admit(block, slot).stays) cache.give_back(slot);
      cache.unpin_all();
    }
    shadow.hold_against(cache);
    EXPECT_THAT(shadow.findings(), ElementsAre());
    EXPECT_GT(shadow.calls, 0u);
    cache.take_slot();
    shadow.hold_against(cache);
    EXPECT_THAT(shadow.findings(), ElementsAre(HasSubstr("1 of 4 slots are free beside 2 resident blocks, and nothing runs")));
  }
  ShadowRules after(true, nullptr);
  make_eviction("lru", {.blocks = 4, .capacity = 4})->insert(1);
  EXPECT_EQ(after.calls, 1u) << "once, not by the one before as well";
}

}  // namespace
}  // namespace vitro
