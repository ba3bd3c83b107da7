#include "engine/parts/ffn/experts/expert_tiers.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

std::uint32_t as_shape(double rows, const TierRule& rule) {
  const auto whole = static_cast<std::uint32_t>(std::ceil(rows - 1e-9));
  return (std::max(whole, 1u) + rule.multiple - 1) / rule.multiple * rule.multiple;
}

}  // namespace

double expected_rows(double share, const TierRule& rule) { return share * rule.chunk * rule.experts_used; }

std::uint32_t base_capacity(std::size_t experts, const TierRule& rule) {
  return rule.base > 0 ? rule.base : std::max(rule.chunk / static_cast<std::uint32_t>(experts), 1u);
}

std::vector<std::vector<std::uint32_t>> capacities(const ExpertLoads& loads, const TierRule& rule) {
  VITRO_CHECK(!loads.empty() && !rule.multiples.empty() && rule.multiple > 0, "tiers of nothing");
  const std::uint32_t base = base_capacity(loads.front().size(), rule);
  double busiest = 0;
  for (const std::vector<double>& layer : loads) busiest = std::max(busiest, *std::max_element(layer.begin(), layer.end()));
  const std::uint32_t fixed = as_shape(rule.capacity > 0 ? rule.capacity : expected_rows(busiest, rule), rule);

  std::vector<std::vector<std::uint32_t>> out;
  for (const std::vector<double>& layer : loads) {
    std::vector<std::uint32_t>& own = out.emplace_back(layer.size(), fixed);
    for (std::size_t e = 0; rule.tiers && e < layer.size(); ++e) {
      const double rows = expected_rows(layer[e], rule);
      const auto holds = std::find_if(rule.multiples.begin(), rule.multiples.end(),
                                      [&](std::uint32_t times) { return rows <= as_shape(double{1} * times * base, rule); });
      own[e] = as_shape(double{1} * base * (holds == rule.multiples.end() ? rule.multiples.back() : *holds), rule);
    }
  }
  return out;
}

}  // namespace vitro
