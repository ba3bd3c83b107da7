// What the tests of expert tiers share: routers' choices by a seed.
#pragma once
#include <algorithm>
#include <numeric>

#include "engine/base/rng.hpp"
#include "engine/parts/ffn/experts/expert_admission.hpp"
#include "engine/parts/ffn/experts/expert_tiers.hpp"

namespace vitro {

// `rows` rows that choose k of `experts`, low ids more often; weights as a router's, descending.
inline std::vector<ExpertChoice> choices(Rng& rng, std::uint32_t rows, std::uint32_t experts, std::uint32_t k) {
  std::vector<ExpertChoice> out(rows);
  for (ExpertChoice& choice : out) {
    float left = 1;
    while (choice.ids.size() < k) {
      const auto id = static_cast<std::uint16_t>(std::min(rng.below(experts), rng.below(experts)));
      if (std::find(choice.ids.begin(), choice.ids.end(), id) != choice.ids.end()) continue;
      choice.ids.push_back(id);
      choice.weights.push_back(left *= 0.5f + 0.4f * static_cast<float>(rng.below(1000)) / 1000);
    }
  }
  return out;
}

// Shares that fall from expert to expert, in an order of the seed's.
inline std::vector<double> shares(Rng& rng, std::uint32_t experts) {
  std::vector<double> out(experts);
  for (double& share : out) share = 1 + static_cast<double>(rng.below(1000));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& share : out) share /= sum;
  return out;
}

}  // namespace vitro
