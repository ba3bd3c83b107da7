#pragma once
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {

extern const KernelSet kAvx2Set;
extern const KernelSet kAvx512Set;

// The same set with AVX512-FP16 where float16 numbers meet.
KernelSet with_float16(KernelSet set);

}  // namespace vitro
