#include "engine/kernels/neon/dot_target.hpp"
#include "engine/kernels/neon/sets.hpp"

namespace vitro {

constinit const KernelSet kNeonDotprodSet = dot_kernel_set<DotStep<1>>("neon-dotprod");

}  // namespace vitro
