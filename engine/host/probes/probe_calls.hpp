// Operands for probes: shapes like those of a model, values that are valid and mean nothing.
#pragma once
#include <vector>

#include "engine/host/probes/probe.hpp"

namespace vitro {

// Bytes of the operand that rotates: the weights, or the keys and values that a call of this shape sees.
Bytes operand_bytes(const CallShape& shape);

void add(WorkCounts& sum, const WorkCounts& more);

// chains[u]: what unit u does of one round over `copies` operands, in order. Leases come from `memory`.
// Throws ConfigError for an operator that no probe makes, or a shape that is not whole.
std::vector<Chain> make_chains(Memory& memory, const CallShape& shape, std::uint64_t copies, std::size_t units);

}  // namespace vitro
