#pragma once
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {

extern const KernelSet kAvx2Set;
extern const KernelSet kAvx512Set;

}  // namespace vitro
