#include "engine/parts/ffn/experts/expert_groups.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

// Work that pays for a launch: half a group of experts that get the base capacity. "2 x 8" of section 4.3 is below it.
bool is_worth_a_launch(const StaticGroup& group, const std::vector<double>& expected, const GroupRule& rule) {
  double rows = 0;
  for (const std::uint16_t expert : group.experts) rows += expected[expert];
  return 2 * rows >= double{1} * rule.group * rule.base;
}

std::vector<bool> cold_experts(const std::vector<double>& expected, const GroupRule& rule) {
  std::vector<bool> cold(expected.size());
  if (!rule.residency) return cold;
  std::vector<std::size_t> by_load(expected.size());
  std::iota(by_load.begin(), by_load.end(), std::size_t{0});
  std::stable_sort(by_load.begin(), by_load.end(), [&](std::size_t a, std::size_t b) { return expected[a] < expected[b]; });
  for (std::size_t i = 0; i < by_load.size(); ++i) cold[by_load[i]] = i < rule.cold || expected[by_load[i]] <= rule.base;
  return cold;
}

}  // namespace

LayerPlacement place_experts(const std::vector<double>& expected, const std::vector<std::uint32_t>& capacities, const GroupRule& rule) {
  VITRO_CHECK(expected.size() == capacities.size() && rule.group > 0 && rule.units > 0, "experts without capacities, or no place for them");
  std::map<std::uint32_t, std::vector<std::uint16_t>, std::greater<>> tiers;
  const std::vector<bool> cold = cold_experts(expected, rule);
  for (std::uint16_t e = 0; e < expected.size(); ++e) {
    if (!cold[e]) tiers[capacities[e]].push_back(e);
  }
  LayerPlacement out;
  for (auto& [capacity, experts] : tiers) {
    std::stable_sort(experts.begin(), experts.end(), [&](std::uint16_t a, std::uint16_t b) { return expected[a] > expected[b]; });
    // As few graphs as the size allows, but one for each unit where that leaves two experts for each.
    const std::size_t fewest = (experts.size() + rule.group - 1) / rule.group;
    const std::size_t graphs = std::max(fewest, std::min<std::size_t>(rule.units, experts.size() / 2));
    for (std::size_t g = 0; g < graphs; ++g) {
      const auto begin = experts.begin() + static_cast<std::ptrdiff_t>(g * experts.size() / graphs);
      const auto end = experts.begin() + static_cast<std::ptrdiff_t>((g + 1) * experts.size() / graphs);
      StaticGroup group{{begin, end}, capacity, 0, 0};
      if (!rule.residency || is_worth_a_launch(group, expected, rule)) out.groups.push_back(std::move(group));
    }
  }
  // The unit with the fewest experts takes the next graph: weights, not rows, are what a launch waits for.
  std::stable_sort(out.groups.begin(), out.groups.end(), [](const StaticGroup& a, const StaticGroup& b) {
    return std::pair(a.experts.size(), a.rows()) > std::pair(b.experts.size(), b.rows());
  });
  std::vector<std::pair<std::size_t, std::uint32_t>> load(rule.units);
  for (StaticGroup& group : out.groups) {
    group.unit = static_cast<std::uint32_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[group.unit].first += group.experts.size();
    load[group.unit].second += group.rows();
  }
  std::stable_sort(out.groups.begin(), out.groups.end(), [](const StaticGroup& a, const StaticGroup& b) { return a.unit < b.unit; });

  out.capacity.resize(expected.size());
  out.first.resize(expected.size());
  for (StaticGroup& group : out.groups) {
    group.first = out.rows;
    for (const std::uint16_t expert : group.experts) {
      out.capacity[expert] = group.capacity;
      out.first[expert] = out.rows;
      out.rows += group.capacity;
    }
  }
  return out;
}

}  // namespace vitro
