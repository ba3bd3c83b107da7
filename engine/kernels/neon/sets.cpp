#include "engine/kernels/neon/sets.hpp"

#include <asm/hwcap.h>
#include <sys/auxv.h>

namespace vitro {

std::vector<const KernelSet*> target_kernel_sets() {
  std::vector<const KernelSet*> sets{&kNeonSet};  // NEON itself is part of the architecture
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) return sets;
  sets.push_back(&kNeonDotprodSet);
  if ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) sets.push_back(&kNeonI8mmSet);
  return sets;
}

}  // namespace vitro
