// Laws of every rule, by random histories of sequences: how much stays, and that all that a row sees can be read.
#include "engine/parts/attention/kv_keep.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/rng.hpp"
#include "engine/machine/budgeted_memory.hpp"
#include "engine/parts/attention/kv_cache.hpp"
#include "tests/effort.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kTokens = 16;
constexpr KvShape kSpilling{2, 2, 32, kTokens, Format::f32, true};

TEST(KvKeep, what_left_is_gone_at_any_greater_length_and_as_much_stays_as_may) {
  for (const KvKeepRule& rule : kv_keep_rules().all()) {
    for (std::uint32_t kept = 0; kept < 9; ++kept) {
      for (std::uint32_t sinks = 0; sinks < 4; ++sinks) {
        const std::unique_ptr<KvKeep> keep = rule.make({kept, sinks});
        EXPECT_EQ(keep->capacity(), kept);
        std::vector<bool> left(40, false);
        for (std::uint32_t full = 1; full <= left.size(); ++full) {
          std::uint32_t staying = 0;
          for (std::uint32_t block = 0; block < full; ++block) {
            const bool stays = keep->stays(block, full);
            EXPECT_FALSE(stays && left[block]) << rule.name << " block " << block << " of " << full;
            left[block] = !stays;
            staying += stays ? 1 : 0;
          }
          EXPECT_EQ(staying, std::min(full, kept)) << rule.name;
        }
      }
    }
  }
}

TEST(KvKeep, each_rule_keeps_what_its_name_says) {
  const auto staying = [](const char* rule) {
    std::vector<std::uint32_t> blocks;
    const std::unique_ptr<KvKeep> keep = kv_keep_rules().find(rule)->make({.kept_blocks = 3, .sink_blocks = 1});
    for (std::uint32_t block = 0; block < 10; ++block) {
      if (keep->stays(block, 10)) blocks.push_back(block);
    }
    return blocks;
  };
  EXPECT_EQ(staying("first"), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(staying("budget"), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(staying("recent"), (std::vector<std::uint32_t>{7, 8, 9}));
  EXPECT_EQ(staying("sinks"), (std::vector<std::uint32_t>{0, 8, 9}));
}

// Steps and prompts of a few sequences that fork and end, as KvFlash would move their blocks.
class Histories : public testing::TestWithParam<std::string> {
 protected:
  void step(std::uint32_t sequence, std::uint32_t rows, bool prompt) {
    std::vector<KvCache::Leaving> leaving;
    std::vector<KvCache::BlockCopy> copies;
    std::vector<KvCache::Fresh> fresh;
    kv_->leave(sequence, leaving);
    const std::uint32_t first = kv_->length(sequence);
    Status status = prompt ? kv_->extend_prompt(sequence, rows, copies, fresh) : kv_->extend(sequence, rows, copies);
    ASSERT_TRUE(status.ok()) << status.message;
    const std::vector<SeqPos> seen{{sequence, first}, {sequence, first + rows - 1}};
    const std::vector<KvCache::Landing> landing = kv_->absent(seen);
    ASSERT_TRUE(kv_->land(landing).ok());
    expect_readable(seen, landing);
    for (const KvCache::Leaving& block : leaving) kv_->has_left(block);
  }
  // Each position that a row sees has a slice of its own: in DRAM, or in a slot that is filled.
  void expect_readable(const std::vector<SeqPos>& rows, const std::vector<KvCache::Landing>& landing) {
    const auto& blocks = kv_->blocks_of(rows[0].sequence);
    const std::uint32_t from = window_ == 0 || rows[0].position < window_ ? 0 : rows[0].position + 1 - window_;
    std::vector<std::uint32_t> table(kv_->table_width(rows) * rows.size()), used;
    kv_->fill_table(rows, kv_->table_width(rows), table.data(), 1);
    for (std::size_t i = from / kTokens; i < blocks.size(); ++i) {
      ASSERT_NE(blocks[i], KvCache::kGone) << "position " << i * kTokens << " is seen from " << rows[0].position;
      const bool landed = std::ranges::any_of(landing, [&](const KvCache::Landing& one) { return one.block == blocks[i]; });
      EXPECT_EQ(kv_->in_flash(blocks[i]), landed);
      used.push_back(table[(rows.size() - 1) * kv_->table_width(rows) + i]);
    }
    std::ranges::sort(used);
    EXPECT_TRUE(std::ranges::adjacent_find(used) == used.end()) << "two blocks in one slice";
  }
  std::uint32_t in_dram(std::uint32_t sequence) const {
    const auto& blocks = kv_->blocks_of(sequence);
    return static_cast<std::uint32_t>(
        std::ranges::count_if(blocks, [&](std::uint32_t block) { return block != KvCache::kGone && !kv_->in_flash(block); }));
  }

  BudgetedMemory memory_{{64 * MiB, 0, 0, 0}, true};
  std::optional<KvCache> kv_;
  std::uint32_t window_ = 0;
};

TEST_P(Histories, no_more_stays_than_the_rule_says_and_all_that_is_seen_can_be_read) {
  for (std::uint64_t seed = 1; seed <= test::all_or_few<std::uint64_t>(60, 6); ++seed) {
    Rng rng(seed);
    const auto kept = static_cast<std::uint32_t>(rng.below(6)), sinks = static_cast<std::uint32_t>(rng.below(3));
    window_ = rng.below(2) == 0 ? 0 : static_cast<std::uint32_t>(1 + rng.below(120));
    kv_.emplace(memory_, kSpilling, 20000, 8, KvPlacement{kv_keep_rules().find(GetParam())->make({kept, sinks}), window_});
    std::vector<std::uint32_t> live{kv_->create()};
    step(live[0], static_cast<std::uint32_t>(1 + rng.below(300)), rng.below(2) == 0);
    for (int i = 0; i < 120 && !HasFatalFailure(); ++i) {
      const std::uint32_t chosen = live[rng.below(live.size())];
      if (rng.below(12) == 0 && live.size() < 4) {
        live.push_back(kv_->fork(chosen));
      } else if (rng.below(20) == 0 && live.size() > 1) {
        kv_->release(chosen);
        std::erase(live, chosen);
      } else {
        step(chosen, static_cast<std::uint32_t>(1 + rng.below(rng.below(10) == 0 ? 90 : 3)), rng.below(10) == 0);
        const std::uint32_t passed = kTokens * 2 + 90;  // what one step adds, and the blocks that it leaves for the next
        EXPECT_LE(in_dram(chosen), kept + (passed + kTokens - 1) / kTokens) << "seed " << seed;
        step(chosen, 1, false);
        step(chosen, 1, false);
        EXPECT_LE(in_dram(chosen), kept + 2) << "a partly filled block and one that just filled; seed " << seed;
      }
    }
    for (const std::uint32_t sequence : live) kv_->release(sequence);
    ASSERT_TRUE(kv_->land({}).ok());
    EXPECT_EQ(kv_->live_blocks(), 0u);
    EXPECT_EQ(memory_.budget(Placement::dram).used, 0u) << "seed " << seed;
  }
}

std::vector<std::string> rule_names() { return kv_keep_rules().names(); }
INSTANTIATE_TEST_SUITE_P(Rules, Histories, testing::ValuesIn(rule_names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace vitro
