// Matrix products of the worker: panels and strips of weights (panels.hpp) against a batch of activations.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/operators.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

bool is_product(Kind kind);

// Bytes of a row of weights that lie in places, which are the operand 3; 0 where weights are one piece.
uint32_t placed_row_bytes(const Operator& op);

// Bytes of the inputs, and of the result. False for impossible shapes. Requires: is_product(op.kind).
bool product_sizes(const Operator& op, uint64_t (&in)[4], uint64_t& out);

// Requires: inside(op, regions). index: of the operator in its request.
void run_product(const Operator& op, uint32_t index, const Regions& regions, volatile uint32_t& progress);

}  // namespace vitro::hexagon
