#include "hw_models/dram/fair_share.hpp"

#include <algorithm>

namespace vitro::hw {
namespace {

// By ascending demand per weight.
bool less(const Claim* a, const Claim* b) { return a->demand * b->weight < b->demand * a->weight; }

// Stable, like std::stable_sort, which would allocate memory at every change of a rate; claims are few.
void sort_claims(std::span<Claim*> claims) {
  for (std::size_t i = 1; i < claims.size(); ++i) {
    Claim* const claim = claims[i];
    std::size_t hole = i;
    for (; hole > 0 && less(claim, claims[hole - 1]); --hole) claims[hole] = claims[hole - 1];
    claims[hole] = claim;
  }
}

}  // namespace

void share_fairly(std::span<Claim*> claims, double budget) {
  // In that order everyone before a claim is satisfied when its turn comes: one pass is enough.
  sort_claims(claims);
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
