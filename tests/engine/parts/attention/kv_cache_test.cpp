#include "engine/parts/attention/kv_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/base/rng.hpp"
#include "engine/machine/budgeted_memory.hpp"

namespace vitro {
namespace {

constexpr KvShape kShape{2, 2, 32, 16, Format::f32};  // 16 KiB per block

class KvCacheTest : public testing::Test {
 protected:
  BudgetedMemory memory_{{MiB, 0, 0, 0}, false};
  std::vector<KvCache::BlockCopy> copies_;

  std::vector<std::uint32_t> table(const KvCache& kv, std::uint32_t sequence) {
    const std::vector<SeqPos> rows{{sequence, kv.length(sequence) - 1}};
    std::vector<std::uint32_t> out(kv.table_width(rows));
    kv.fill_table(rows, kv.table_width(rows), out.data());
    return out;
  }
};

TEST_F(KvCacheTest, memory_follows_the_length_of_sequences) {
  KvCache kv(memory_, kShape, 256);
  EXPECT_EQ(memory_.budget(Placement::dram).used, 0u);
  const std::uint32_t s = kv.create();
  ASSERT_TRUE(kv.extend(s, 17, copies_).ok());
  EXPECT_EQ(kv.live_blocks(), 2u);
  EXPECT_EQ(memory_.budget(Placement::dram).used, 2 * kv.block_bytes());
  kv.release(s);
  EXPECT_EQ(memory_.budget(Placement::dram).used, 0u);
}

TEST_F(KvCacheTest, blocks_grow_until_they_fill_whole_pages) {
  KvCache kv(memory_, {1, 1, 8, 1, Format::f16}, 4096);
  EXPECT_EQ(kv.block_bytes() % kPageSize, 0u);
  EXPECT_EQ(kv.block_bytes(), Bytes(kv.shape().block_tokens) * 8 * 2 * 2);
}

// Query heads in place of KV heads: the pool has them all, and a position takes that many times the room.
TEST_F(KvCacheTest, room_follows_the_heads_that_keep_keys_and_values) {
  KvShape query_heads = kShape;
  query_heads.heads = 4 * kShape.heads;
  BudgetedMemory memory({MiB, 0, 0, 0}, false);
  KvCache once(memory, kShape, 256), copied(memory, query_heads, 256);
  EXPECT_EQ(copied.block_bytes(), 4 * once.block_bytes());
  EXPECT_EQ(copied.pool().shape, (std::array<std::uint32_t, 3>{4 * kShape.heads, kShape.block_tokens, kShape.head_dim}));
  ASSERT_TRUE(copied.extend(copied.create(), 17, copies_).ok());
  EXPECT_EQ(memory.budget(Placement::dram).used, 2 * 4 * once.block_bytes());
}

TEST_F(KvCacheTest, a_fork_shares_blocks_and_copies_only_the_partly_filled_one) {
  KvCache kv(memory_, kShape, 256);
  const std::uint32_t a = kv.create();
  ASSERT_TRUE(kv.extend(a, 20, copies_).ok());
  const std::uint32_t b = kv.fork(a);
  EXPECT_EQ(kv.live_blocks(), 2u);
  ASSERT_TRUE(kv.extend(b, 1, copies_).ok());
  ASSERT_EQ(copies_.size(), 1u);
  EXPECT_EQ(kv.live_blocks(), 3u);
  EXPECT_EQ(table(kv, a)[0], table(kv, b)[0]);
  EXPECT_NE(table(kv, a)[1], table(kv, b)[1]);
  EXPECT_EQ(copies_[0].from.offset, table(kv, a)[1] * kv.block_bytes());
  EXPECT_EQ(copies_[0].to.offset, table(kv, b)[1] * kv.block_bytes());
  // The last owner writes in place.
  copies_.clear();
  ASSERT_TRUE(kv.extend(a, 1, copies_).ok());
  EXPECT_TRUE(copies_.empty());
}

TEST_F(KvCacheTest, a_fork_at_a_block_border_copies_nothing) {
  KvCache kv(memory_, kShape, 256);
  const std::uint32_t a = kv.create();
  ASSERT_TRUE(kv.extend(a, 16, copies_).ok());
  const std::uint32_t b = kv.fork(a);
  ASSERT_TRUE(kv.extend(b, 1, copies_).ok());
  EXPECT_TRUE(copies_.empty());
}

TEST_F(KvCacheTest, a_fork_of_the_first_positions_leaves_out_what_follows) {
  KvCache kv(memory_, kShape, 256);
  const std::uint32_t a = kv.create();
  ASSERT_TRUE(kv.extend(a, 40, copies_).ok());
  const std::uint32_t b = kv.fork(a, 20), none = kv.fork(a, 0);
  EXPECT_EQ(kv.length(b), 20u);
  EXPECT_EQ(kv.length(none), 0u);
  EXPECT_EQ(kv.live_blocks(), 3u) << "all are the first one's";
  ASSERT_TRUE(kv.extend(b, 1, copies_).ok());
  ASSERT_EQ(copies_.size(), 1u) << "the block that it cuts is another's, too";
  EXPECT_EQ(table(kv, a)[0], table(kv, b)[0]);
  EXPECT_NE(table(kv, a)[1], table(kv, b)[1]);
  EXPECT_EQ(kv.length(a), 40u);
  for (const std::uint32_t sequence : {a, b, none}) kv.release(sequence);
  EXPECT_EQ(kv.live_blocks(), 0u);
}

TEST_F(KvCacheTest, over_budget_leaves_the_sequence_as_it_was) {
  BudgetedMemory small({2 * 16 * KiB, 0, 0, 0}, false);
  KvCache kv(small, kShape, 256);
  const std::uint32_t a = kv.create();
  ASSERT_TRUE(kv.extend(a, 16, copies_).ok());
  const Status status = kv.extend(a, 40, copies_);
  EXPECT_EQ(status.code, Code::over_budget);
  EXPECT_EQ(kv.length(a), 16u);
  EXPECT_EQ(small.budget(Placement::dram).used, kv.block_bytes());
  EXPECT_TRUE(kv.extend(a, 16, copies_).ok());
}

// Random creates, forks, extends and releases against a model that gives every sequence its own list of positions.
TEST_F(KvCacheTest, random_histories_keep_sequences_apart_and_leak_nothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    BudgetedMemory memory({64 * MiB, 0, 0, 0}, true);
    KvCache kv(memory, kShape, 4096);
    std::map<std::uint32_t, std::uint32_t> lengths;
    // What each slot (block, offset) holds, as the copies and appends would leave it.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;
    std::map<std::uint32_t, std::vector<std::uint64_t>> expected;
    std::uint64_t stamp = 0;
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t action = rng.below(4);
      if (lengths.empty() || action == 0) {
        lengths[kv.create()] = 0;
        continue;
      }
      auto chosen = std::next(lengths.begin(), static_cast<std::ptrdiff_t>(rng.below(lengths.size())));
      const std::uint32_t s = chosen->first;
      if (action == 1) {
        const std::uint32_t f = kv.fork(s);
        lengths[f] = lengths[s];
        expected[f] = expected[s];
      } else if (action == 2 && lengths.size() > 1) {
        kv.release(s);
        lengths.erase(s);
        expected.erase(s);
      } else {
        const auto count = static_cast<std::uint32_t>(1 + rng.below(5));
        copies_.clear();
        if (!kv.extend(s, count, copies_).ok()) continue;
        for (const auto& copy : copies_) {
          const auto from = static_cast<std::uint32_t>(copy.from.offset / kv.block_bytes());
          const auto to = static_cast<std::uint32_t>(copy.to.offset / kv.block_bytes());
          for (std::uint32_t i = 0; i < kShape.block_tokens; ++i) bytes[{to, i}] = bytes[{from, i}];
        }
        const std::vector<std::uint32_t> blocks = [&] {
          const std::vector<SeqPos> rows{{s, lengths[s] + count - 1}};
          std::vector<std::uint32_t> out(kv.table_width(rows));
          kv.fill_table(rows, kv.table_width(rows), out.data());
          return out;
        }();
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::uint32_t position = lengths[s]++;
          bytes[{blocks[position / kShape.block_tokens], position % kShape.block_tokens}] = ++stamp;
          expected[s].push_back(stamp);
        }
      }
      for (const auto& [id, values] : expected) {
        if (values.empty()) continue;
        const std::vector<std::uint32_t> blocks = table(kv, id);
        for (std::uint32_t p = 0; p < values.size(); ++p) {
          ASSERT_EQ((bytes[{blocks[p / kShape.block_tokens], p % kShape.block_tokens}]), values[p]) << "seed " << seed << " step " << step;
        }
      }
    }
    for (const auto& [id, length] : lengths) kv.release(id);
    EXPECT_EQ(kv.live_blocks(), 0u);
    EXPECT_EQ(memory.budget(Placement::dram).used, 0u);
  }
}

// What stays, what may leave, where it goes, and what of it a window sees.
TEST_F(KvCacheTest, full_blocks_behind_the_threshold_leave_and_land_again) {
  KvShape shape = kShape;  // slices of 8 KiB
  shape.spills = true;
  const auto first_two = [](std::uint32_t window) { return KvPlacement{kv_keep_rules().find("first")->make({.kept_blocks = 2}), window}; };
  KvCache kv(memory_, shape, 256, 0, first_two(0));
  ASSERT_TRUE(kv.tiered());
  EXPECT_EQ(kv.places(), 14u);
  EXPECT_EQ(kv.pool_layers(), 1u);
  const std::uint32_t a = kv.create();
  ASSERT_TRUE(kv.extend(a, 70, copies_).ok());
  std::vector<KvCache::Leaving> leaving;
  kv.leave(a, leaving);
  ASSERT_EQ(leaving.size(), 2u) << "blocks 2 and 3 are full and behind 20 positions";
  kv.leave(a, leaving);
  EXPECT_EQ(leaving.size(), 2u) << "once";
  EXPECT_TRUE(kv.absent({{a, 69}}).empty()) << "on their way is in DRAM";
  for (const KvCache::Leaving& block : leaving) kv.has_left(block);
  EXPECT_EQ(memory_.budget(Placement::dram).used, 3 * kv.block_bytes());

  const std::vector<KvCache::Landing> absent = kv.absent({{a, 69}});
  ASSERT_EQ(absent.size(), 2u);
  ASSERT_TRUE(kv.land(absent).ok());
  EXPECT_EQ(memory_.budget(Placement::dram).used, 3 * kv.block_bytes() + 2 * kv.slice_bytes());
  std::vector<std::uint32_t> table(5);
  kv.fill_table({{a, 69}}, 5, table.data(), 1);
  EXPECT_EQ(table, (std::vector<std::uint32_t>{16, 17, 32, 33, 20})) << "slices of layer 1, and the slots behind 16 blocks of 2 layers";

  // A fork shares them; places return when the last one goes.
  const std::uint32_t b = kv.fork(a);
  kv.release(a);
  EXPECT_EQ(kv.absent({{b, 69}}), absent);
  kv.release(b);
  ASSERT_TRUE(kv.land({}).ok());
  EXPECT_EQ(memory_.budget(Placement::dram).used, 0u);
  const std::uint32_t c = kv.create();
  ASSERT_TRUE(kv.extend(c, 64, copies_).ok());
  leaving.clear();
  kv.leave(c, leaving);
  ASSERT_EQ(leaving.size(), 2u);
  EXPECT_EQ(leaving[0].place, 0u);
}

TEST_F(KvCacheTest, a_window_wants_what_it_sees_and_no_more) {
  KvShape shape = kShape;
  shape.spills = true;
  const std::map<std::uint32_t, std::size_t> wanted{{6, 0}, {22, 1}, {23, 2}};  // of blocks 2 and 3, at position 69
  for (const auto& [window, blocks] : wanted) {
    KvCache kv(memory_, shape, 256, 0, {kv_keep_rules().find("first")->make({.kept_blocks = 2}), window});
    const std::uint32_t a = kv.create();
    ASSERT_TRUE(kv.extend(a, 70, copies_).ok());
    std::vector<KvCache::Leaving> leaving;
    kv.leave(a, leaving);
    for (const KvCache::Leaving& block : leaving) kv.has_left(block);
    EXPECT_EQ(kv.absent({{a, 69}}).size(), blocks) << "window " << window;
  }
}

// Keys and values of a prompt that goes layer by layer: those that stay have memory, the others a place and a slot from the start.
TEST_F(KvCacheTest, blocks_of_a_prompt_that_do_not_stay_never_have_memory_of_their_own) {
  KvShape shape = kShape;
  shape.spills = true;
  KvCache kv(memory_, shape, 256, 0, {kv_keep_rules().find("recent")->make({.kept_blocks = 1}), 40});
  const std::uint32_t a = kv.create();
  std::vector<KvCache::Fresh> fresh;
  ASSERT_TRUE(kv.extend_prompt(a, 101, copies_, fresh).ok());  // six full blocks and five positions
  ASSERT_EQ(fresh.size(), 5u);
  EXPECT_EQ(memory_.budget(Placement::dram).used, 2 * kv.block_bytes());
  EXPECT_EQ(fresh[0].landing.place, KvCache::kNoPlace) << "positions 0 to 15 are not seen from 101 on";
  EXPECT_EQ(fresh[2].landing.place, KvCache::kNoPlace) << "nor are 32 to 47";
  EXPECT_EQ(fresh[3].landing.place, 0u);
  EXPECT_EQ(fresh[4].landing.place, 1u);
  EXPECT_EQ(std::pair(fresh[4].begin, fresh[4].end), std::pair(64u, 80u));
  EXPECT_EQ(kv.absent({{a, 0}}).size(), 5u) << "the prompt's first row is there";
  EXPECT_EQ(kv.absent({{a, 101}}).size(), 2u);
  std::vector<KvCache::Leaving> leaving;
  kv.leave(a, leaving);
  EXPECT_TRUE(leaving.empty());
  EXPECT_EQ(kv.blocks_of(a)[2], KvCache::kGone);
  EXPECT_NE(kv.blocks_of(a)[3], KvCache::kGone);
  EXPECT_EQ(kv.live_blocks(), 4u);
}

// What a window has passed when the prompt ends has no place in the file, but its rows were there while they were computed.
TEST_F(KvCacheTest, more_blocks_of_a_prompt_may_land_than_the_file_has_places_for) {
  KvShape shape = kShape;
  shape.spills = true;
  KvCache kv(memory_, shape, 256, 0, {kv_keep_rules().find("recent")->make({.kept_blocks = 14}), 40});
  ASSERT_EQ(kv.places(), 2u);
  const std::uint32_t a = kv.create();
  std::vector<KvCache::Fresh> fresh;
  ASSERT_TRUE(kv.extend_prompt(a, 101, copies_, fresh).ok());
  const std::vector<KvCache::Landing> passed = kv.absent({{a, 0}});
  ASSERT_EQ(passed.size(), 3u);
  ASSERT_TRUE(kv.land(passed).ok());
  EXPECT_EQ(memory_.budget(Placement::dram).used, 4 * kv.block_bytes() + 3 * kv.slice_bytes());
}

}  // namespace
}  // namespace vitro
