#include "engine/parts/placement/session_memory.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/rng.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

constexpr Bytes kSegment = SessionMemory::kSegment;

struct Nothing final : public Function {
  Outcome execute(const KernelCall&) override { return {}; }
};

class SessionMemoryTest : public ::testing::Test {
 protected:
  SessionMemoryTest() : host_(spec(), function_, trace_) {
    arena_ = host_.machine().memory.lease(16 * kSegment, Placement::dram, Region::cold).value_or_throw();
  }
  static VirtualMachineSpec spec() {
    VirtualMachineSpec spec;
    spec.units.emplace_back();
    spec.phantom = true;
    return spec;
  }
  // A product over rows of 64 B that stand at these places, in units of a segment.
  Chain rows_at(std::vector<std::uint32_t> segments, std::int16_t layer) const {
    KernelCall call;
    call.op = ops::Matmul{};
    call.layer = layer;
    View weights;
    weights.memory = arena_;
    weights.shape = {static_cast<std::uint32_t>(segments.size()), 16, 0};
    call.in = {weights};
    call.rows = std::make_shared<const std::vector<std::uint32_t>>(segments.size());
    for (std::uint32_t& place : segments) place *= kSegment / kRowOffsetUnit;
    call.row_offsets = std::make_shared<const std::vector<std::uint32_t>>(std::move(segments));
    return {call};
  }

  Nothing function_;
  NullTrace trace_;
  VirtualMachine host_;
  Lease arena_;
};

TEST_F(SessionMemoryTest, of_a_large_block_only_the_segments_under_chosen_rows_are_mapped) {
  SessionMemory memory(16 * kSegment);
  EXPECT_EQ(memory.place(rows_at({0, 5}, 0)), 0u);
  EXPECT_EQ(memory.mapped(0), 2 * kSegment);
  EXPECT_EQ(memory.place(rows_at({5, 7}, 0)), 0u);
  EXPECT_EQ(memory.mapped(0), 3 * kSegment) << "other places of the same layer, one of them known";
}

TEST_F(SessionMemoryTest, a_launch_goes_where_least_is_missing) {
  SessionMemory memory(2 * kSegment);
  EXPECT_EQ(memory.place(rows_at({0, 1}, 0)), 0u);
  EXPECT_EQ(memory.place(rows_at({2}, 1)), 1u);
  EXPECT_EQ(memory.place(rows_at({1}, 2)), 0u);
  EXPECT_EQ(memory.place(rows_at({2, 3}, 3)), 1u);
  EXPECT_EQ(memory.sessions(), 2u);
  EXPECT_EQ(memory.place(rows_at({1, 2, 3}, 4)), std::nullopt);
}

// Against sets of segments that are copied and added to, whatever launches come.
TEST_F(SessionMemoryTest, random_launches_go_where_plain_sets_send_them) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    const std::size_t limit = 2 + rng.below(5);
    SessionMemory memory(limit * kSegment);
    std::vector<std::set<std::uint32_t>> sessions;
    for (int launch = 0; launch < 60; ++launch) {
      std::vector<std::uint32_t> segments(1 + rng.below(6));
      for (std::uint32_t& segment : segments) segment = static_cast<std::uint32_t>(rng.below(16));
      const std::set<std::uint32_t> needed(segments.begin(), segments.end());
      const auto with = [&](std::set<std::uint32_t> session) {
        session.insert(needed.begin(), needed.end());
        return session;
      };
      std::optional<std::size_t> best;
      for (std::size_t s = 0; s < sessions.size() && needed.size() <= limit; ++s) {
        const std::size_t size = with(sessions[s]).size();
        if (size > limit || (best && size - sessions[s].size() >= with(sessions[*best]).size() - sessions[*best].size())) continue;
        best = s;
      }
      if (!best && needed.size() <= limit) {
        best = sessions.size();
        sessions.emplace_back();
      }
      if (best) sessions[*best] = with(sessions[*best]);
      ASSERT_EQ(memory.place(rows_at(segments, static_cast<std::int16_t>(launch))), best) << seed << ": " << launch;
      ASSERT_EQ(memory.sessions(), sessions.size());
      for (std::size_t s = 0; s < sessions.size(); ++s) ASSERT_EQ(memory.mapped(s), sessions[s].size() * kSegment);
    }
  }
}

}  // namespace
}  // namespace vitro
