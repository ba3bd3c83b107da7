// The error bounds of docs/design/kernels.md, evaluated for one call.
#pragma once
#include <vector>

#include "engine/ops/kernel_call.hpp"

namespace vitro::test {

// Every element of the view's whole lease from its offset on, as the format's values.
std::vector<double> values_of(const View& view);
// For each of values_of(call.out[0]): how far a set may be from the reference. 0 where the call writes nothing.
std::vector<double> error_bounds(const KernelCall& call);

}  // namespace vitro::test
