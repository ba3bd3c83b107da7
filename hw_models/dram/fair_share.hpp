// Max-min fair sharing: nobody gets more than it asks for, and what one leaves goes to the others by weight.
#pragma once
#include <span>

namespace vitro::hw {

struct Claim {
  double demand = 0;
  double weight = 1;  // > 0
  double share = 0;   // the answer
};

// Laws: shares sum to min(budget, all demands); adding a claim never raises another's share. Reorders `claims`.
void share_fairly(std::span<Claim*> claims, double budget);

// The same in two steps, for claims that are shared out more than once: in order of their demands, which returns the sum of their weights,
// and then a budget. Demands do not change in between.
double sort_claims(std::span<Claim*> claims);
void share_sorted(std::span<Claim* const> claims, double weights, double budget);

}  // namespace vitro::hw
