#include "hw_models/dram/fair_share.hpp"

#include <algorithm>

namespace vitro::hw {
namespace {

// By ascending demand per weight.
bool less(const Claim* a, const Claim* b) { return a->demand * b->weight < b->demand * a->weight; }

}  // namespace

// Stable, like std::stable_sort, which would allocate memory at every change of a rate; claims are few.
double sort_claims(std::span<Claim*> claims) {
  for (std::size_t i = 1; i < claims.size(); ++i) {
    Claim* const claim = claims[i];
    std::size_t hole = i;
    for (; hole > 0 && less(claim, claims[hole - 1]); --hole) claims[hole] = claims[hole - 1];
    claims[hole] = claim;
  }
  double weights = 0;
  for (const Claim* claim : claims) weights += claim->weight;
  return weights;
}

// In that order everyone before a claim is satisfied when its turn comes: one pass is enough.
void share_sorted(std::span<Claim* const> claims, double weights, double budget) {
  for (Claim* claim : claims) {
    claim->share = std::min(claim->demand, budget * claim->weight / weights);
    budget -= claim->share;
    weights -= claim->weight;
    // Rounding must not leave a last claim without budget: a flow with rate 0 would never end.
    budget = std::max(budget, 0.0);
  }
}

void share_fairly(std::span<Claim*> claims, double budget) { share_sorted(claims, sort_claims(claims), budget); }

}  // namespace vitro::hw
