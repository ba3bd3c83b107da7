#include "engine/kernels/code_methods.hpp"

#include <algorithm>

#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {
namespace {

struct Fastest {
  std::string_view kernel_set;
  unsigned look_ups;  // bit n: codes of n bits
};
constexpr unsigned kOne = 1u << 1, kTwo = 1u << 2, kThree = 1u << 3, kFour = 1u << 4;
// x86: `vitro bench kernels`, one thread. NEON: rates of llvm-mca (configs/kernels/cpu-*.yaml), where all large cores agree; of the plain
// set, which has no instruction for dot products, those of q4_0 beside look-ups.
constexpr Fastest kFastest[] = {
    {"portable", kOne},
    {"avx2", kOne | kTwo | kThree},
    {"avx512", kOne},
    {"neon", kOne | kTwo | kThree | kFour},
    {"neon-dotprod", kOne | kThree},
    {"neon-i8mm", kOne | kThree},
};

}  // namespace

bool looks_up_faster(std::string_view name, std::uint32_t bits) {
  const auto* set = std::ranges::find(kFastest, name, &Fastest::kernel_set);
  if (set == std::end(kFastest)) set = std::ranges::find(kFastest, kernel_set(name).name, &Fastest::kernel_set);
  return set != std::end(kFastest) && bits <= 4 && (set->look_ups >> bits & 1u) != 0;
}

}  // namespace vitro
