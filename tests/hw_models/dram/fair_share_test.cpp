#include "hw_models/dram/fair_share.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/base/rng.hpp"

namespace vitro::hw {
namespace {

std::vector<double> shares(std::vector<Claim> claims, double budget) {
  std::vector<Claim*> pointers;
  for (Claim& claim : claims) pointers.push_back(&claim);
  share_fairly(pointers, budget);
  std::vector<double> out;
  for (const Claim& claim : claims) out.push_back(claim.share);
  return out;
}

TEST(FairShare, a_small_claim_gets_what_it_asks_and_the_rest_is_split) {
  EXPECT_EQ(shares({{10, 1}, {2, 1}, {10, 1}}, 12), (std::vector<double>{5, 2, 5}));
}

TEST(FairShare, weights_divide_what_is_short) { EXPECT_EQ(shares({{10, 3}, {10, 1}}, 8), (std::vector<double>{6, 2})); }

TEST(FairShare, plenty_satisfies_everyone) { EXPECT_EQ(shares({{1, 1}, {2, 5}}, 10), (std::vector<double>{1, 2})); }

TEST(FairShare, shares_sum_to_the_budget_or_to_all_demands) {
  Rng rng(7);
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<Claim> claims(1 + rng.below(8));
    double demand = 0;
    for (Claim& claim : claims) {
      claim = {0.1 + rng.uniform() * 10, 0.5 + rng.uniform(), 0};
      demand += claim.demand;
    }
    const double budget = rng.uniform() * 40;
    const std::vector<double> given = shares(claims, budget);
    EXPECT_NEAR(std::accumulate(given.begin(), given.end(), 0.0), std::min(budget, demand), 1e-9);
    for (std::size_t i = 0; i < claims.size(); ++i) EXPECT_LE(given[i], claims[i].demand);
  }
}

TEST(FairShare, sorted_once_claims_are_shared_out_as_sorted_anew) {
  Rng rng(9);
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<Claim> claims(1 + rng.below(8));
    for (Claim& claim : claims) claim = {1.0 + static_cast<double>(rng.below(4)), 0.5 + rng.uniform(), 0};
    std::vector<Claim> once = claims;
    std::vector<Claim*> order;
    for (Claim& claim : once) order.push_back(&claim);
    const double weights = sort_claims(order);
    for (int budget = 0; budget < 5; ++budget) {
      const double all = rng.uniform() * 20;
      share_sorted(order, weights, all);
      std::vector<double> given;
      for (const Claim& claim : once) given.push_back(claim.share);
      EXPECT_EQ(given, shares(claims, all));
    }
  }
}

TEST(FairShare, another_claim_never_raises_anyones_share) {
  Rng rng(8);
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<Claim> claims(2 + rng.below(6));
    for (Claim& claim : claims) claim = {0.1 + rng.uniform() * 10, 0.5 + rng.uniform(), 0};
    const double budget = rng.uniform() * 30;
    const std::vector<double> with = shares(claims, budget);
    claims.pop_back();
    const std::vector<double> without = shares(claims, budget);
    for (std::size_t i = 0; i < without.size(); ++i) EXPECT_LE(with[i], without[i] + 1e-9);
  }
}

}  // namespace
}  // namespace vitro::hw
