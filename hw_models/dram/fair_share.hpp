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

}  // namespace vitro::hw
