#include "engine/kernels/cpu/logits.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro::cpu {

void check_logits(const KernelCall& call, const float* logits, std::size_t n, std::size_t row) {
  if (std::any_of(logits, logits + n, [](float l) { return std::isnan(l); })) {
    throw RunError(std::string(to_string(call.op)) + ": a logit of row " + std::to_string(row) + " is not a number");
  }
}

std::vector<std::uint32_t> largest(const float* logits, std::size_t n, std::size_t k) {
  std::vector<std::uint32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0u);
  const auto before = [&](std::uint32_t a, std::uint32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids.end(), before);
  ids.resize(k);
  return ids;
}

}  // namespace vitro::cpu
