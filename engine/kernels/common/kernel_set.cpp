#include "engine/kernels/common/kernel_set.hpp"

#include <vector>

#include "engine/base/check.hpp"

namespace vitro {

std::span<const KernelSet* const> kernel_sets() {
  static const std::vector<const KernelSet*> sets = [] {
    std::vector<const KernelSet*> all{&kPortableSet};
    for (const KernelSet* set : target_kernel_sets()) all.push_back(set);
    return all;
  }();
  return sets;
}

const KernelSet& kernel_set(std::string_view name) {
  if (name.empty() || name == "auto") return *kernel_sets().back();
  std::string known;
  for (const KernelSet* set : kernel_sets()) {
    if (set->name == name) return *set;
    known += (known.empty() ? "" : ", ") + std::string(set->name);
  }
  throw ConfigError("engine.products.isa: \"" + std::string(name) + "\" is unknown or can not run on this machine (expected auto, " +
                    known + "; engine.kernels also takes how products are made: lut, lut_w1 to lut_w4, dot)");
}

}  // namespace vitro
