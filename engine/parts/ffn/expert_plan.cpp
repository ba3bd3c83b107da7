#include "engine/parts/ffn/expert_plan.hpp"

#include <algorithm>

namespace vitro {

ExpertPlan make_expert_plan(const std::vector<ExpertChoice>& choices, std::uint32_t experts) {
  ExpertPlan plan;
  plan.k = choices.empty() ? 0 : static_cast<std::uint32_t>(choices.front().ids.size());
  plan.sources.reserve(choices.size() * plan.k);
  std::vector<std::vector<std::uint32_t>> next_source(choices.size());
  for (std::uint16_t expert = 0; expert < experts; ++expert) {
    const auto first = static_cast<std::uint32_t>(plan.rows.size());
    for (std::uint32_t row = 0; row < choices.size(); ++row) {
      const std::vector<std::uint16_t>& ids = choices[row].ids;
      if (std::find(ids.begin(), ids.end(), expert) == ids.end()) continue;
      next_source[row].push_back(static_cast<std::uint32_t>(plan.rows.size()));
      plan.rows.push_back(row);
    }
    const auto count = static_cast<std::uint32_t>(plan.rows.size()) - first;
    if (count > 0) plan.groups.push_back({expert, first, count});
  }
  for (std::uint32_t row = 0; row < choices.size(); ++row) {
    const ExpertChoice& choice = choices[row];
    VITRO_CHECK(next_source[row].size() == plan.k && choice.weights.size() == plan.k, "a row chose an expert twice or out of range");
    std::vector<std::size_t> order(plan.k);
    for (std::size_t i = 0; i < plan.k; ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return choice.ids[a] < choice.ids[b]; });
    for (std::size_t i = 0; i < plan.k; ++i) {
      plan.sources.push_back(next_source[row][i]);
      plan.weights.push_back(choice.weights[order[i]]);
    }
  }
  return plan;
}

}  // namespace vitro
