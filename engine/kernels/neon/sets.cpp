#include "engine/kernels/neon/sets.hpp"

#include <asm/hwcap.h>
#include <sys/auxv.h>

namespace vitro {

std::vector<const KernelSet*> target_kernel_sets() {
  std::vector<const KernelSet*> sets{&kNeonSet};  // NEON itself is part of the architecture
  const unsigned long has = getauxval(AT_HWCAP);
  if ((has & HWCAP_ASIMDDP) == 0) return sets;
  const auto complete = [&](const KernelSet& set) {
    return (has & HWCAP_ASIMDHP) == 0 ? set : with_float16(set, (has & HWCAP_ASIMDFHM) != 0);
  };
  static const KernelSet dotprod = complete(kNeonDotprodSet), i8mm = complete(kNeonI8mmSet);
  sets.push_back(&dotprod);
  if ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) sets.push_back(&i8mm);
  return sets;
}

}  // namespace vitro
