// What the router and the sampler both do with a row of logits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/ops/kernel_call.hpp"

namespace vitro::cpu {

// Throws RunError that names the operator and the row. A NaN has no place in an order; one in the logits means that the model or its
// weights are broken.
void check_logits(const KernelCall& call, const float* logits, std::size_t n, std::size_t row);

// The ids of the `k` largest logits, largest first, the lower id first among equals.
std::vector<std::uint32_t> largest(const float* logits, std::size_t n, std::size_t k);

}  // namespace vitro::cpu
