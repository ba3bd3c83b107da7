// What the operators' own files have in common. Each file pair engine/ops/NAME.{hpp,cpp} holds one operator: its parameters as a struct,
// its contract as the comment above it, and what the struct's member functions say of a call of it:
//   check      throws RunError where the call breaks the contract
//   count      the work, from shapes alone
//   reference  the result in double precision, the plainest reading of the contract; returns an Outcome or nothing
// engine/ops/operators.hpp lists them all. Contracts give operands in the order in which KernelCall::in and out hold them. B is the number
// of (sequence, position) rows of the call's batch, R and S are row counts; activations are float32 or float16, row-major. A vector [D] may
// also be written [1, D]; q, k and v may have heads and dim folded. engine/ops/contract.hpp says what holds for all calls.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/ops/outcome.hpp"

namespace vitro::ops {

class Checker;    // engine/ops/checker.hpp
class Counter;    // engine/ops/counter.hpp
class Reference;  // engine/ops/reference.hpp

// Operand counts, and what of a call means anything to an operator.
struct Arity {
  std::size_t in_min = 0, in_max = 0, out = 0;
  bool slice = false, rows = false, row_offsets = false;  // of KernelCall
  bool weights = false;                                   // the first input: in q4_nibbles its scales are one more, see scales_of()
  bool tiled = false;                                     // the first input may be in tiles
  bool regions = false;                                   // of KernelCall
  std::uint8_t f16_in = 0;                                // activations that may be float16: bit i is input i
  bool f16_out = false;                                   // and the output
};

}  // namespace vitro::ops
