// Calls with float16 among their activations (engine/ops/contract.hpp). Some kernels take them as they are: attention, gather and move; add
// and the product of a ReLU where all of their operands are float16; and matmul of float16 weights in rows, of the operand x alone. Any
// other call is computed over float32 copies of what it reads, and its results are rounded as they are stored.
#pragma once
#include "engine/kernels/cpu/ops.hpp"

namespace vitro::cpu {

bool has_halves(const KernelCall& call);

// Requires: check_call(call) passed and has_halves(call).
Outcome compute_halves(const KernelSet& set, const KernelCall& call);

}  // namespace vitro::cpu
