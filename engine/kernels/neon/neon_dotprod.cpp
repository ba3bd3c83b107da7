#include "engine/kernels/neon/dot_target.hpp"
#include "engine/kernels/neon/sets.hpp"

namespace vitro {

constinit const KernelSet kNeonDotprodSet = make_kernel_set<DotTarget>("neon-dotprod");

}  // namespace vitro
