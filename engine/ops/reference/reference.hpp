// Variant `reference`: every operator in double precision with Eigen, the plainest reading of contract.hpp and the oracle
// of the tests. It also keeps the tally that count() has to equal.
#pragma once
#include "engine/ops/contract.hpp"

namespace vitro {

// Requires: contract::check_call(call) passed and views have bytes. `tally`: null, or where work is added as it is done.
Outcome run_reference(const KernelCall& call, WorkCounts* tally = nullptr);

}  // namespace vitro
