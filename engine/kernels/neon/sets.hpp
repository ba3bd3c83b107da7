#pragma once
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {

extern const KernelSet kNeonSet;
extern const KernelSet kNeonDotprodSet;
extern const KernelSet kNeonI8mmSet;

}  // namespace vitro
