#include "engine/parts/ffn/experts/expert_tiers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

using Curves = std::vector<OverflowCurve>;

std::uint32_t as_shape(double rows, const TierRule& rule) {
  const auto whole = static_cast<std::uint32_t>(std::ceil(rows - 1e-9));
  return (std::max(whole, 1u) + rule.multiple - 1) / rule.multiple * rule.multiple;
}

double overflow_limit(const TierRule& rule) { return rule.max_drop * rule.chunk * rule.experts_used + 1e-9; }

// Distinct shapes, ascending.
std::vector<std::uint32_t> tiers_of(const std::vector<double>& layer, const TierRule& rule) {
  double unit = base_capacity(layer.size(), rule);
  if (rule.base == 0 && rule.base_of == BaseOf::pairs)
    unit = imbalance(layer) * rule.chunk * rule.experts_used / static_cast<double>(layer.size()) / rule.multiples.back();
  std::vector<std::uint32_t> tiers;
  for (const std::uint32_t times : rule.multiples) tiers.push_back(std::min(as_shape(times * unit, rule), as_shape(rule.chunk, rule)));
  tiers.erase(std::unique(tiers.begin(), tiers.end()), tiers.end());
  return tiers;
}

// The tiers of a layer and who is in which. They grow where that helps most against overflow for the rows that it adds.
class LayerTiers {
 public:
  LayerTiers(const std::vector<double>& layer, const Curves& curves, const TierRule& rule)
      : rule_(rule), curves_(curves), tiers_(tiers_of(layer, rule)), by_load_(layer.size()), ends_(tiers_.size()) {
    std::iota(by_load_.begin(), by_load_.end(), std::size_t{0});
    std::stable_sort(by_load_.begin(), by_load_.end(), [&](std::size_t a, std::size_t b) { return layer[a] < layer[b]; });
    for (std::size_t t = 0; t < tiers_.size(); ++t) {
      const auto holds = [&](std::size_t e) { return expected_rows(layer[e], rule) <= tiers_[t]; };
      const auto end = std::find_if_not(by_load_.begin(), by_load_.end(), holds);
      ends_[t] = static_cast<std::size_t>(end - by_load_.begin());
    }
    ends_.back() = by_load_.size();
  }

  double overflow() const {
    double sum = 0;
    for (std::size_t t = 0; t < tiers_.size(); ++t) sum += beyond(t, tiers_[t]);
    return sum;
  }

  void grow() {
    const std::uint32_t most = as_shape(rule_.chunk, rule_);
    double best = -1;
    std::size_t tier = 0;
    bool promotes = false;
    const auto weigh = [&](std::size_t t, bool promotion, double gain, std::uint32_t rows) {
      if (gain / rows > best) best = gain / rows, tier = t, promotes = promotion;
    };
    for (std::size_t t = 0; t < tiers_.size(); ++t) {
      if (first(t) == ends_[t]) continue;
      const bool last = t + 1 == tiers_.size();
      const std::uint32_t next = std::min(last ? most : tiers_[t + 1], tiers_[t] + rule_.multiple);
      const auto members = static_cast<std::uint32_t>(ends_[t] - first(t));
      if (next > tiers_[t]) weigh(t, false, beyond(t, tiers_[t]) - beyond(t, next), (next - tiers_[t]) * members);
      if (last) continue;
      const OverflowCurve& hottest = curves_[by_load_[ends_[t] - 1]];
      weigh(t, true, hottest.beyond(tiers_[t]) - hottest.beyond(tiers_[t + 1]), tiers_[t + 1] - tiers_[t]);
    }
    VITRO_CHECK(best >= 0, "tiers of whole chunks overflow");
    if (promotes) {
      --ends_[tier];
      return;
    }
    const bool last = tier + 1 == tiers_.size();
    tiers_[tier] = std::min(last ? most : tiers_[tier + 1], tiers_[tier] + rule_.multiple);
    if (last || tiers_[tier] < tiers_[tier + 1]) return;
    tiers_.erase(tiers_.begin() + static_cast<std::ptrdiff_t>(tier));  // its experts are in the next one now
    ends_.erase(ends_.begin() + static_cast<std::ptrdiff_t>(tier));
  }

  std::vector<std::uint32_t> capacities() const {
    std::vector<std::uint32_t> own(by_load_.size());
    for (std::size_t t = 0; t < tiers_.size(); ++t) {
      for (std::size_t i = first(t); i < ends_[t]; ++i) own[by_load_[i]] = tiers_[t];
    }
    return own;
  }

 private:
  std::size_t first(std::size_t tier) const { return tier == 0 ? 0 : ends_[tier - 1]; }
  double beyond(std::size_t tier, std::uint32_t capacity) const {
    double sum = 0;
    for (std::size_t i = first(tier); i < ends_[tier]; ++i) sum += curves_[by_load_[i]].beyond(capacity);
    return sum;
  }

  const TierRule& rule_;
  const Curves& curves_;
  std::vector<std::uint32_t> tiers_;
  std::vector<std::size_t> by_load_;  // experts, the coolest first
  std::vector<std::size_t> ends_;     // by tier, in by_load_
};

// One capacity for all, in which no layer overflows more than it may.
std::uint32_t fixed_capacity(const ExpertLoads& loads, const std::vector<Curves>& curves, const TierRule& rule) {
  if (rule.capacity > 0) return as_shape(rule.capacity, rule);
  double busiest = 0;
  for (const std::vector<double>& layer : loads) busiest = std::max(busiest, *std::max_element(layer.begin(), layer.end()));
  std::uint32_t capacity = as_shape(expected_rows(busiest, rule), rule);
  for (const Curves& layer : curves) {
    const auto overflow = [&] {
      double sum = 0;
      for (const OverflowCurve& expert : layer) sum += expert.beyond(capacity);
      return sum;
    };
    while (capacity < rule.chunk && overflow() > overflow_limit(rule)) capacity += rule.multiple;
  }
  return capacity;
}

}  // namespace

double expected_rows(double share, const TierRule& rule) {
  return std::min(share * rule.chunk * rule.experts_used, static_cast<double>(rule.chunk));
}

std::uint32_t base_capacity(std::size_t experts, const TierRule& rule) {
  if (rule.base > 0) return rule.base;
  const std::uint32_t all = rule.chunk * (rule.base_of == BaseOf::pairs ? rule.experts_used : 1);
  return std::max(all / static_cast<std::uint32_t>(experts), 1u);
}

double imbalance(const std::vector<double>& layer) {
  VITRO_CHECK(!layer.empty(), "imbalance of nothing");
  return *std::max_element(layer.begin(), layer.end()) * static_cast<double>(layer.size());
}

OverflowCurve overflow_curve(double share, const ChunkCounts& counts, std::size_t layer, std::size_t expert, const TierRule& rule) {
  std::vector<std::uint32_t> seen;
  for (std::size_t c = 0; !counts.empty() && c < counts[layer].size(); ++c) seen.push_back(counts[layer][c].at(expert));
  return {rule.chunk, expected_rows(share, rule) / rule.chunk, seen};
}

std::vector<std::vector<OverflowCurve>> overflow_curves(const ExpertLoads& loads, const ChunkCounts& counts, const TierRule& rule) {
  VITRO_CHECK(counts.empty() || counts.size() == loads.size(), "a calibration of other layers");
  std::vector<Curves> curves;
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    Curves& own = curves.emplace_back();
    for (std::size_t e = 0; e < loads[layer].size(); ++e) own.push_back(overflow_curve(loads[layer][e], counts, layer, e, rule));
  }
  return curves;
}

std::vector<std::vector<std::uint32_t>> capacities(const ExpertLoads& loads, const std::vector<Curves>& curves, const TierRule& rule) {
  VITRO_CHECK(!loads.empty() && loads.size() == curves.size() && !rule.multiples.empty() && rule.multiple > 0, "tiers of nothing");
  std::vector<std::vector<std::uint32_t>> out;
  if (!rule.tiers) {
    const std::uint32_t fixed = fixed_capacity(loads, curves, rule);
    for (const std::vector<double>& layer : loads) out.emplace_back(layer.size(), fixed);
    return out;
  }
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    LayerTiers tiers(loads[layer], curves[layer], rule);
    while (tiers.overflow() > overflow_limit(rule)) tiers.grow();
    out.push_back(tiers.capacities());
  }
  return out;
}

}  // namespace vitro
