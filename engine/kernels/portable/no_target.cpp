// For processors without a target folder: the portable set alone.
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {

std::vector<const KernelSet*> target_kernel_sets() { return {}; }

}  // namespace vitro
