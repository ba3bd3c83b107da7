// The contracts `hmx`, `int16_tables` and `int8_rows` (engine/ops/variants.hpp) on a CPU, wherever there is no accelerator.
#pragma once
#include "engine/kernels/common/kernel_set.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::hexagon {

// Without the bias. Requires: a matmul that check_call() passed, of variant kHmx.
void hmx_matmul(const KernelSet& set, const KernelCall& call);
// The same of variant kInt16Tables, and of kInt8Rows.
void int16_tables_matmul(const KernelCall& call);
void int8_rows_matmul(const KernelCall& call);

}  // namespace vitro::hexagon
