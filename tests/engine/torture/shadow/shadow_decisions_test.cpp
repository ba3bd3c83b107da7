#include "engine/torture/shadow/shadow_decisions.hpp"

#include <gmock/gmock.h>

namespace vitro {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ShadowDecisions, follow_pages_and_their_room) {
  ShadowDecisions log;
  log.room_for_pages(4);
  log.decision("load", "page 8+3", "cpu0");
  log.decision("evict", "page 9+1", "cpu0");
  log.decision("load", "page 20+2", "cpu0");
  EXPECT_THAT(log.findings(), ElementsAre());
  EXPECT_EQ(log.loads().pages, 5u);
  log.decision("load", "page 8+1", "cpu0");
  log.decision("evict", "page 9+1", "cpu0");
  log.decision("load", "page 30+1", "cpu0");
  EXPECT_THAT(log.findings(), ElementsAre("page 8 is loaded, and is resident", "page 9 is given up, and is not resident",
                                          "5 pages are resident, and there is room for 4"));
}

TEST(ShadowDecisions, do_not_know_after_a_failure_which_pages_are_left) {
  ShadowDecisions log;
  log.decision("load", "page 8+3", "cpu0");
  log.pages_are_unsure();
  log.decision("load", "page 8+1", "cpu0");
  log.decision("evict", "page 9+1", "cpu0");
  EXPECT_THAT(log.findings(), ElementsAre());
}

TEST(ShadowDecisions, follow_experts_of_all_layers_in_the_slots_of_a_matrix) {
  ShadowDecisions log;
  log.decision("load", "blk.0.ffn_up_exps.weight expert 1", "cold");
  log.decision("foresee", "blk.1.ffn_up_exps.weight expert 1", "cold");
  log.decision("load", "blk.0.ffn_gate_exps.weight expert 1", "cold");
  log.decision("forget", "blk.1.ffn_up_exps.weight expert 1", "cold");
  EXPECT_THAT(log.findings(), ElementsAre());
  EXPECT_EQ(log.most_experts(), 2u);
  EXPECT_EQ(log.loads().experts, 2u);
  EXPECT_EQ(log.loads().foreseen, 1u);
  log.decision("load", "blk.0.ffn_up_exps.weight expert 1", "cold");
  log.decision("evict", "blk.1.ffn_up_exps.weight expert 1", "cold");
  EXPECT_THAT(log.findings(), ElementsAre(HasSubstr("expert 1 is resident"), HasSubstr("expert 1 is not resident")));
}

TEST(ShadowDecisions, count_matrices_and_blocks_that_come_for_a_step) {
  ShadowDecisions log;
  log.decision("load", "blk.0.ffn_up.weight", "dram");
  log.decision("load", "blk.0.ffn_up.weight", "cold");
  log.decision("load", "layer 0 block 0 and the next 7", "cold");
  log.decision("load", "layer 0 block 9", "staging");
  log.decision("grow", "layer 0 block 0: 2 clusters", "hot");
  EXPECT_EQ(log.loads().matrices.at("blk.0.ffn_up.weight"), 1u);
  EXPECT_EQ(log.loads().neurons, 1u);
  EXPECT_EQ(log.count(), 5u);
}

}  // namespace
}  // namespace vitro
