#include "engine/parts/placement/core_balance.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

constexpr std::size_t kKinds = static_cast<std::size_t>(BlockKind::head) + 1;
// The same loop on two equal cores of an idle machine differs by so much (docs/design/machine-host.md).
constexpr double kAlike = 1.1;

}  // namespace

CoreBalance::CoreBalance(std::size_t cores, std::uint32_t decode_rows)
    : decode_rows_(decode_rows), shares_(2 * kKinds, Shares(cores, 1.0)) {}

void CoreBalance::learn(BlockKind kind, std::uint32_t rows, const std::vector<double>& seconds) {
  Shares& shares = shares_[index(kind, rows)];
  VITRO_CHECK(seconds.size() == shares.size(), "a balance learns from all of its cores");
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (seconds[i] > 0) shares[i] /= seconds[i];
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share *= static_cast<double>(shares.size()) / sum;
}

void CoreBalance::settle() {
  for (Shares& shares : shares_) {
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    if (*most < kAlike * *least) shares.assign(shares.size(), 1.0);
  }
}

}  // namespace vitro
