// Catches buffers that are overwritten while a call is in flight: inputs are summed when a chain is submitted and again
// when each call ends.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/machine/compute_unit.hpp"

namespace vitro::sim {

struct OperandSum {
  std::size_t operand = 0;
  std::uint64_t sum = 0;
};
using OperandSums = std::vector<OperandSum>;

// Per call, the operands that nothing in the chain itself writes. What calls that run side by side may legally change is
// left out: the KV pool, rows of a weight matrix that the call does not use, and other calls' slices of an operator that
// works in place. Phantom operands have no bytes and no sum.
std::vector<OperandSums> sum_operands(const Chain& chain);

// Throws RunError naming unit, operator and operand.
void check_operands(const KernelCall& call, const OperandSums& sums, std::string_view unit);

}  // namespace vitro::sim
