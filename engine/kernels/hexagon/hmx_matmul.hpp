// The `hmx` contract (engine/kernels/variants.hpp) on a CPU: the bits of a matrix unit for fp16, wherever there is none.
#pragma once
#include "engine/kernels/operands.hpp"

namespace vitro::hexagon {

// Without the bias. Requires: a matmul that check_call() passed, of variant kHmx.
void hmx_matmul(const KernelCall& call);

}  // namespace vitro::hexagon
