// The contracts `hmx` and `int8_rows` (engine/ops/variants.hpp) on a CPU: the bits of a matrix unit, wherever there is none.
#pragma once
#include "engine/ops/operands.hpp"

namespace vitro::hexagon {

// Without the bias. Requires: a matmul that check_call() passed, of variant kHmx.
void hmx_matmul(const KernelCall& call);
// The same of variant kInt8Rows.
void int8_rows_matmul(const KernelCall& call);

}  // namespace vitro::hexagon
