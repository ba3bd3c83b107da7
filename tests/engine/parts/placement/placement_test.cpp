#include "engine/parts/placement/placement.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

struct Nothing final : public ComputeUnit {
  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { std::abort(); }
  Task<Result<Graph>> load(GraphSpec) override { co_return Graph{}; }
  void unload(Graph) override {}
  void submit(const Chain&, Completion<RunResult>&) override {}
  void submit(const Graph&, const Bindings&, Completion<RunResult>&) override {}
  UnitCaps caps_;
};

TEST(Accelerator, its_share_depends_on_the_kind_of_phase_and_the_rows) {
  Nothing npu;
  const Accelerator accelerator{&npu, {{1, 0.5, 0.25, 0.1}, {4, 0.7, 0.5, 0}}};
  EXPECT_EQ(accelerator.shares(3, BlockKind::attention, 1), (Shares{0.25, 0.25, 0.5}));
  EXPECT_EQ(accelerator.shares(2, BlockKind::ffn, 2), (Shares{0.5, 0.5}));
  EXPECT_EQ(accelerator.shares(2, BlockKind::head, 1), (Shares{0.9, 0.1}));
  EXPECT_EQ(accelerator.shares(2, BlockKind::ffn, 9), (Shares{0.5, 0.5})) << "larger steps have the last split";
  EXPECT_EQ(accelerator.shares(2, BlockKind::embed, 1), (Shares{1, 0}));
  EXPECT_EQ(Accelerator{}.shares(2, BlockKind::ffn, 1), (Shares{1, 1}));
}

TEST(Accelerator, uneven_shares_cover_the_extent_once_as_near_as_grains_allow) {
  Rng rng(11);
  for (int i = 0; i < 500; ++i) {
    const auto extent = static_cast<std::uint32_t>(1 + rng.below(5000)), grain = static_cast<std::uint32_t>(1 + rng.below(32));
    Shares shares(1 + rng.below(7));
    for (double& share : shares) share = rng.below(4) == 0 ? 0 : rng.uniform();
    shares[rng.below(shares.size())] += 0.1;
    double total = 0;
    for (const double share : shares) total += share;
    std::uint32_t next = 0;
    for (std::size_t u = 0; u < shares.size(); ++u) {
      const Slice slice = share_of(extent, grain, u, shares);
      if (shares[u] == 0) {
        EXPECT_EQ(slice.count, 0u);
        continue;
      }
      EXPECT_EQ(slice.first, std::min(next, extent));
      EXPECT_LT(std::abs(slice.count - extent * shares[u] / total), 2.0 * grain);
      next = slice.first + slice.count;
    }
    EXPECT_EQ(next, extent);
  }
}

}  // namespace
}  // namespace vitro
