#pragma once
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro::cpu {

struct MatmulShape {
  std::uint32_t n = 0, k = 0, batch = 0;
};

// A matmul in the variants kInt8 and kInt8Tables, without its bias. Requires: check_call(call) passed.
void matmul_int8(const KernelSet& set, const KernelCall& call, MatmulShape shape);

}  // namespace vitro::cpu
