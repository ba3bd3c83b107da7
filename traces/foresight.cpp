#include "traces/foresight.hpp"

#include <algorithm>

#include "traces/draw_keys.hpp"
#include "traces/firing_process.hpp"

namespace vitro {

ExpertChoice foresee(const ExpertChoice& truth, double share, const ForesightOf& of) {
  const std::uint64_t layer = static_cast<std::uint16_t>(of.layer);
  const std::uint64_t stream = draw_of(mix(of.seed, {kForesight, layer, of.at.sequence}), of.at.position);
  std::vector<std::uint16_t> others;
  for (std::uint16_t e = 0; e < of.experts; ++e) {
    if (std::ranges::find(truth.ids, e) == truth.ids.end()) others.push_back(e);
  }
  ExpertChoice named = truth;
  for (std::uint16_t& expert : named.ids) {
    const std::uint64_t own = draw_of(stream, expert);
    if (others.empty() || to_unit(own) < share) continue;
    const auto other = others.begin() + static_cast<std::ptrdiff_t>(scramble(own) % others.size());
    expert = *other;
    others.erase(other);
  }
  return named;
}

}  // namespace vitro
