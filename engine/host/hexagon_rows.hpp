// Calls on rows of weights in places of their own (KernelCall::row_offsets), as neurons in a cache are, in the worker's terms.
#pragma once
#include <vector>

#include "engine/host/hexagon_operands.hpp"
#include "engine/host/hexagon_session.hpp"

namespace vitro::hexagon {

// Code::unsupported_shape, with the reason, for calls that the worker does not compute: products of f16, q8_0 and q4_0 in the contract hmx,
// of q8_0 and q4_0 in int8, and sums of rows of all three (accumulate) in the float contract; q4_0 also as q4_nibbles, whose scales lie
// apart. Kinds are those of dense weights, by which activations are encoded, or add_rows.
Result<MatmulForm> rows_form(const KernelCall& call);

// The operator of the same product on rows in places; add_rows is itself.
Kind in_places(Kind kind);

// Places of the rows that a call names, or of all rows of its slice, which lie one behind the other; and where the list of them lies.
// Scales that lie apart are copied behind it. What a session reads there is made visible to the worker. `at`: where the weights begin in
// the session.
Result<std::uint32_t> place_rows(HexagonSession& session, const KernelCall& call, std::uint32_t at);
// h [batch][rows] of an accumulate: of the rows that it names.
Result<std::uint32_t> place_row_weights(HexagonSession& session, const KernelCall& call);

// Rows of the first operand that a call computes.
std::uint32_t rows_of(const KernelCall& call);
// y [batch][rows] of a product goes to the columns that the call computes, [batch][columns] of an accumulate to all.
void store_results(const KernelCall& call, const float* y);

}  // namespace vitro::hexagon
