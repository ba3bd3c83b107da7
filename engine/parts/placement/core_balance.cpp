#include "engine/parts/placement/core_balance.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

constexpr std::size_t kKinds = static_cast<std::size_t>(BlockKind::head) + 1;
// The same loop on two equal cores of an idle machine differs by so much (docs/design/machine-host.md).
constexpr double kAlike = 1.1;
// Rounds whose phases differ by less took as long as each other.
constexpr double kAsFast = 1.02;

bool alike(const Shares& shares) {
  const auto [least, most] = std::ranges::minmax(shares);
  return most < kAlike * least;
}

void scale(Shares& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share *= static_cast<double>(shares.size()) / sum;
}

}  // namespace

CoreBalance::CoreBalance(std::size_t cores, std::uint32_t decode_rows)
    : decode_rows_(decode_rows), learned_(2 * kKinds, Learned{Shares(cores, 1.0), {}, false}) {}

void CoreBalance::learn(BlockKind kind, std::uint32_t rows, const std::vector<double>& seconds, double phase) {
  auto& [shares, rounds, without_slowest] = learned_[index(kind, rows)];
  VITRO_CHECK(seconds.size() == shares.size(), "a balance learns from all of its cores");
  rounds.insert(without_slowest ? rounds.begin() : rounds.end(), {shares, phase});
  if (std::exchange(without_slowest, false)) return;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (seconds[i] > 0) shares[i] /= seconds[i];
  }
  scale(shares);
}

bool CoreBalance::leave_out_slowest(BlockKind kind, std::uint32_t rows) {
  auto& [shares, rounds, without_slowest] = learned_[index(kind, rows)];
  const auto slowest = std::ranges::min_element(shares);
  if (alike(shares)) return false;
  *slowest = 0;
  scale(shares);
  return without_slowest = true;
}

void CoreBalance::settle() {
  for (auto& [shares, rounds, without_slowest] : learned_) {
    if (rounds.empty()) continue;
    const double fastest = std::ranges::min_element(rounds, {}, &Round::phase)->phase;
    shares = std::find_if(rounds.rbegin(), rounds.rend(), [&](const Round& round) { return round.phase <= kAsFast * fastest; })->shares;
    rounds.clear();
    if (alike(shares)) shares.assign(shares.size(), 1.0);
  }
}

}  // namespace vitro
