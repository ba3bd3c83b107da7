// What holds for calls of every operator; the contract of each stands in its own file (engine/ops/operator.hpp). Kernels read whole
// operands and write only their slice of the output. Where an operator needs positions, B is the size of call.batch. KernelCall::rows
// (matmul, glu, select, accumulate) holds row numbers of the whole operand, ascending, all inside the slice; other elements of the output
// stay as they are. KernelCall::row_offsets (matmul, accumulate) says where in the first operand's memory each of these rows lies; the
// operand's shape is then that of the matrix whose rows they are.
// Activations are float32 or float16 (MNN-LLM 5.3), each operand by itself, where Arity says so. A call with float16 among them computes
// what it computes with float32 activations of the same values, and rounds what it stores into a float16 output once, to nearest, ties to
// even; what is larger than float16 reaches becomes infinite. Attention also rounds what it keeps in between (engine/ops/attention.hpp).
#pragma once
#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Holds a call against its operator's contract before a kernel runs. Throws RunError naming operator, operand and shape.
void check_call(const KernelCall& call);

// Variant `reference`: every operator in double precision with Eigen, the oracle of the tests. It also keeps the tally that count() has to
// equal. Requires: check_call(call) passed and views have bytes. `tally`: null, or where work is added as it is done.
Outcome run_reference(const KernelCall& call, WorkCounts* tally = nullptr);

}  // namespace vitro
