#include "engine/kernels/x86/sets.hpp"

#include <vector>

namespace vitro {

// The builtins also ask the operating system whether it saves the wide registers.
std::vector<const KernelSet*> target_kernel_sets() {
  std::vector<const KernelSet*> sets;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) sets.push_back(&kAvx2Set);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    static const KernelSet avx512 = __builtin_cpu_supports("avx512fp16") ? with_float16(kAvx512Set) : kAvx512Set;
    sets.push_back(&avx512);
  }
  return sets;
}

}  // namespace vitro
