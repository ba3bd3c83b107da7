// What of a KV cache is staged for a step, where it goes, and what it costs the budget.
#include "engine/parts/attention/kv_staging.hpp"

#include <gmock/gmock.h>

#include "engine/machine/budgeted_memory.hpp"

namespace vitro {
namespace {

using testing::ElementsAre;

constexpr KvShape kShape{2, 2, 32, 16, Format::f32};  // staged, a block is one page

class KvStagingTest : public testing::Test {
 protected:
  Bytes used() const { return memory_.budget(Placement::dram).used; }
  std::uint32_t sequence_of(KvCache& kv, std::uint32_t positions) {
    const std::uint32_t sequence = kv.create();
    EXPECT_TRUE(kv.extend(sequence, positions, copies_).ok());
    return sequence;
  }
  static std::vector<std::uint32_t> sources(const KvStaging& staging, std::uint32_t layer) {
    std::vector<std::uint32_t> out(staging.places()->size());
    staging.fill_sources(layer, out.data());
    return out;
  }
  static std::vector<std::uint32_t> table(const KvStaging& staging, const std::vector<SeqPos>& rows, std::uint32_t width) {
    std::vector<std::uint32_t> out(rows.size() * width, ~0u);
    staging.fill_table(rows, width, out.data());
    return out;
  }

  BudgetedMemory memory_{{MiB, 0, 0, 0}, false};
  std::vector<KvCache::BlockCopy> copies_;
};

TEST_F(KvStagingTest, each_visible_block_has_one_place_and_the_last_position_that_is_seen) {
  KvCache kv(memory_, kShape, 256);
  KvStaging staging(memory_, kv, 0);
  const std::uint32_t a = sequence_of(kv, 20), b = sequence_of(kv, 40);
  const Bytes before = used();
  const std::vector<SeqPos> rows{{a, 18}, {a, 19}, {b, 39}};
  ASSERT_TRUE(staging.begin_step(rows).ok());
  EXPECT_THAT(*staging.places(), ElementsAre(SeqPos{a, 15}, SeqPos{a, 3}, SeqPos{b, 15}, SeqPos{b, 15}, SeqPos{b, 7}));
  EXPECT_THAT(sources(staging, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(sources(staging, 1), ElementsAre(0, 1, 2, 3, 4)) << "a block holds all layers";
  EXPECT_THAT(table(staging, rows, 3), ElementsAre(0, 1, 0, 0, 1, 0, 2, 3, 4));
  EXPECT_EQ(used() - before, 5 * 2 * 2 * 16 * 32 * 2u) << "keys and values of two heads in halves, of one layer";
  EXPECT_EQ(used() - before, KvStaging::bytes(kv.shape(), 5));
  EXPECT_EQ(staging.pool().format, Format::f16);
  EXPECT_EQ(staging.pool().shape, kv.pool().shape);
}

TEST_F(KvStagingTest, what_forks_share_is_staged_once_as_far_as_any_of_them_sees) {
  KvCache kv(memory_, kShape, 256);
  KvStaging staging(memory_, kv, 0);
  const std::uint32_t a = sequence_of(kv, 32), b = kv.fork(a);
  ASSERT_TRUE(kv.extend(b, 1, copies_).ok());
  const std::vector<SeqPos> rows{{a, 24}, {b, 32}};
  ASSERT_TRUE(staging.begin_step(rows).ok());
  EXPECT_THAT(*staging.places(), ElementsAre(SeqPos{a, 15}, SeqPos{a, 15}, SeqPos{b, 0}));
  EXPECT_THAT(table(staging, rows, 3), ElementsAre(0, 1, 0, 0, 1, 2));
}

TEST_F(KvStagingTest, a_window_leaves_out_what_no_row_sees) {
  KvCache kv(memory_, kShape, 256);
  KvStaging staging(memory_, kv, 20);
  const std::uint32_t a = sequence_of(kv, 64);
  const std::vector<SeqPos> rows{{a, 50}, {a, 51}, {a, 52}};  // the first sees 31 .. 50
  ASSERT_TRUE(staging.begin_step(rows).ok());
  EXPECT_THAT(sources(staging, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(table(staging, {rows[0]}, 4), ElementsAre(0, 0, 1, 2)) << "block 0 is seen by nobody";
  ASSERT_TRUE(staging.begin_step({{a, 51}}).ok());
  EXPECT_THAT(sources(staging, 0), ElementsAre(2, 3)) << "positions 32 .. 51";
}

TEST_F(KvStagingTest, memory_follows_the_step_and_returns) {
  const Bytes nothing = used();
  {
    KvCache kv(memory_, kShape, 256);
    KvStaging staging(memory_, kv, 0);
    const std::uint32_t a = sequence_of(kv, 100);
    const Bytes kept = used();
    for (const std::uint32_t position : {99u, 0u, 40u}) {
      ASSERT_TRUE(staging.begin_step({{a, position}}).ok());
      EXPECT_EQ(used() - kept, KvStaging::bytes(kv.shape(), position / 16 + 1));
    }
    kv.release(a);
  }
  EXPECT_EQ(used(), nothing);
}

TEST_F(KvStagingTest, a_step_that_has_no_room_is_over_budget_and_changes_nothing) {
  KvCache kv(memory_, kShape, 1024);
  KvStaging staging(memory_, kv, 0);
  const std::uint32_t a = sequence_of(kv, 16 * 60);  // of 64 blocks of 16 KiB that the budget holds
  ASSERT_TRUE(staging.begin_step({{a, 31}}).ok());
  const Bytes before = used();
  EXPECT_EQ(staging.begin_step({{a, 16 * 60 - 1}}).code, Code::over_budget);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(staging.places()->size(), 2u);
}

TEST_F(KvStagingTest, blocks_that_were_in_flash_are_staged_from_where_they_land) {
  KvShape shape = kShape;
  shape.spills = true;
  KvCache kv(memory_, shape, 256, 0, {kv_keep_rules().find("first")->make({.kept_blocks = 2})});
  KvStaging staging(memory_, kv, 0);
  const std::uint32_t a = sequence_of(kv, 70);
  std::vector<KvCache::Leaving> leaving;
  kv.leave(a, leaving);
  for (const KvCache::Leaving& block : leaving) kv.has_left(block);
  ASSERT_TRUE(kv.land(kv.absent({{a, 69}})).ok());
  ASSERT_TRUE(staging.begin_step({{a, 69}}).ok());
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    std::vector<std::uint32_t> expected(5);
    kv.fill_table({{a, 69}}, 5, expected.data(), layer);
    EXPECT_EQ(sources(staging, layer), expected);
  }
  EXPECT_THAT(table(staging, {{a, 69}}, 5), ElementsAre(0, 1, 2, 3, 4)) << "the same places in every layer";
}

}  // namespace
}  // namespace vitro
