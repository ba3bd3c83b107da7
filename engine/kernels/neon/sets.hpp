#pragma once
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {

extern const KernelSet kNeonSet;
extern const KernelSet kNeonDotprodSet;
extern const KernelSet kNeonI8mmSet;

// The same set with float16 instructions where float16 numbers meet, for a core that has them: FEAT_FP16, and FEAT_FHM where
// `multiplies_into_float32`.
KernelSet with_float16(KernelSet set, bool multiplies_into_float32);

}  // namespace vitro
