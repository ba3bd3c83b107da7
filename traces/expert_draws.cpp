#include "traces/expert_draws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/check.hpp"
#include "traces/draw_keys.hpp"
#include "traces/firing_process.hpp"

namespace vitro {

std::vector<double> ExpertDraws::popularity(std::int16_t layer, std::uint32_t experts) const {
  std::vector<std::uint32_t> order = up_to(experts);
  shuffle(order, mix(seed_, {kExpertRank, key_word(layer)}));
  std::vector<double> out(experts);
  double sum = 0;
  for (std::uint32_t rank = 0; rank < experts; ++rank) sum += out[order[rank]] = std::pow(rank + 1.0, -profile_.expert_skew);
  for (double& share : out) share /= sum;
  return out;
}

// The draw of one expert at one place. `stream` holds seed, purpose, layer and sequence.
std::uint64_t ExpertDraws::draw(std::uint64_t stream, std::uint32_t expert, SeqPos at) const {
  const std::uint64_t own = draw_of(stream, expert), fresh = draw_of(own, at.position);
  if (to_unit(scramble(fresh ^ kRepeat)) >= profile_.expert_persistence) return fresh;
  const std::uint64_t phase = draw_of(own, kPhase) % profile_.stretch;
  return draw_of(own ^ kStretch, (at.position + phase) / profile_.stretch);
}

// k experts without replacement, each in proportion to its popularity: the k largest of log(popularity) plus Gumbel
// noise (Efraimidis and Spirakis 2006). The same scores serve as router logits for the weights.
std::vector<ExpertChoice> ExpertDraws::choices(const Router& router, std::span<const SeqPos> rows) const {
  const std::uint32_t k = router.asked.k, experts = router.experts;
  if (k == 0 || k > experts) throw RunError(fmt::format("route: {} of {} experts were asked for", k, experts));
  const std::vector<double> popular = popularity(router.layer, experts);
  std::vector<ExpertChoice> out;
  for (const SeqPos at : rows) {
    const std::uint64_t stream = mix(seed_, {kExpert, key_word(router.layer), at.sequence});
    std::vector<std::pair<double, std::uint32_t>> scores;
    for (std::uint32_t e = 0; e < experts; ++e) {
      const double u = 1 - to_unit(draw(stream, e, at));  // in (0, 1]
      // The smallest double keeps u = 1 finite: it is the luckiest draw, not an infinite one.
      scores.emplace_back(-(std::log(popular[e]) - std::log(std::max(-std::log(u), 0x1.0p-60))), e);
    }
    std::sort(scores.begin(), scores.end());
    double sum = 0;
    const std::uint32_t counted = router.asked.renormalise ? k : experts;
    for (std::uint32_t i = 0; i < counted; ++i) sum += std::exp(scores[0].first - scores[i].first);
    ExpertChoice choice;
    for (std::uint32_t i = 0; i < k; ++i) {
      choice.ids.push_back(static_cast<std::uint16_t>(scores[i].second));
      choice.weights.push_back(static_cast<float>(std::exp(scores[0].first - scores[i].first) / sum));
    }
    out.push_back(std::move(choice));
  }
  return out;
}

}  // namespace vitro
