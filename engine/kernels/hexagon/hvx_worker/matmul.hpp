// Matrix products of the worker: shapes of panels, strips (panels.hpp) and rows of weights against a batch of activations.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/operators.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

// Bytes of a row of weights that lie in places, which are the operand 3; 0 where weights are one piece.
uint32_t placed_row_bytes(const Operator& op);

// Bytes of the inputs, and of the result. False for impossible shapes. Requires: is_staged(op.kind).
bool product_sizes(const Operator& op, uint64_t (&in)[4], uint64_t& out);

}  // namespace vitro::hexagon
