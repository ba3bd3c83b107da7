#include "hw_models/dram/fair_share.hpp"

#include <algorithm>

namespace vitro::hw {

void share_fairly(std::span<Claim*> claims, double budget) {
  // By ascending demand per weight, everyone before a claim is satisfied when its turn comes: one pass is enough.
  std::stable_sort(claims.begin(), claims.end(),
                   [](const Claim* a, const Claim* b) { return a->demand * b->weight < b->demand * a->weight; });
  double weight = 0;
  for (const Claim* claim : claims) weight += claim->weight;
  for (Claim* claim : claims) {
    claim->share = std::min(claim->demand, budget * claim->weight / weight);
    budget -= claim->share;
    weight -= claim->weight;
    // Rounding must not leave a last claim without budget: a flow with rate 0 would never end.
    budget = std::max(budget, 0.0);
  }
}

}  // namespace vitro::hw
