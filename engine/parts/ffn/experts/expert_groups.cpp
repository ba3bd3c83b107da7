#include "engine/parts/ffn/experts/expert_groups.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

// Experts of one capacity, the hottest first.
struct Tier {
  std::uint32_t capacity = 0;
  std::vector<std::uint16_t> experts;
};

class Grouping {
 public:
  Grouping(const LayerLoad& load, const GroupRule& rule) : load_(load), rule_(rule), by_load_(load.expected.size()) {
    std::iota(by_load_.begin(), by_load_.end(), std::uint16_t{0});
    std::stable_sort(by_load_.begin(), by_load_.end(), [&](std::uint16_t a, std::uint16_t b) {
      return std::pair(load.expected[a], load.capacity[a]) > std::pair(load.expected[b], load.capacity[b]);
    });
  }

  // How many of the hottest experts may have a graph by popularity.
  std::size_t warm() const {
    if (!rule_.residency) return by_load_.size();
    const auto cold = std::find_if(by_load_.begin(), by_load_.end(), [&](auto e) { return load_.expected[e] <= rule_.cold_rows; });
    return std::min<std::size_t>(by_load_.size() - std::min<std::size_t>(rule_.cold, by_load_.size()), cold - by_load_.begin());
  }

  // Groups of the hottest `warm` experts.
  std::vector<StaticGroup> groups(std::size_t warm) const {
    std::vector<Tier> tiers;
    for (std::size_t i = 0; i < warm; ++i) {
      const std::uint32_t capacity = load_.capacity[by_load_[i]];
      if (tiers.empty() || tiers.back().capacity != capacity) tiers.push_back({capacity, {}});
      tiers.back().experts.push_back(by_load_[i]);
    }
    if (rule_.residency) merge(tiers);
    std::vector<StaticGroup> groups;
    for (const Tier& tier : tiers) cut(tier, groups);
    while (rule_.residency && !groups.empty() && rows_of(groups.back().experts) < rule_.launch_rows) groups.pop_back();
    return groups;
  }

 private:
  double rows_of(const std::vector<std::uint16_t>& experts) const {
    double rows = 0;
    for (const std::uint16_t expert : experts) rows += load_.expected[expert];
    return rows;
  }

  // A tier that is not worth a launch takes the hottest experts of the next one, or all where what they leave would not be worth one.
  void merge(std::vector<Tier>& tiers) const {
    for (std::size_t t = 0; t + 1 < tiers.size();) {
      std::vector<std::uint16_t>&own = tiers[t].experts, &next = tiers[t + 1].experts;
      std::size_t taken = 0;
      double rows = rows_of(own);
      for (; taken < next.size() && rows < rule_.launch_rows; ++taken) rows += load_.expected[next[taken]];
      if (taken == 0) {
        ++t;
        continue;
      }
      if (rows_of({next.begin() + static_cast<std::ptrdiff_t>(taken), next.end()}) < rule_.launch_rows) taken = next.size();
      own.insert(own.end(), next.begin(), next.begin() + static_cast<std::ptrdiff_t>(taken));
      next.erase(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(taken));
      if (next.empty()) tiers.erase(tiers.begin() + static_cast<std::ptrdiff_t>(t) + 1);
    }
  }

  // As few graphs as the size allows, but one for each unit where that leaves two experts for each.
  void cut(const Tier& tier, std::vector<StaticGroup>& groups) const {
    const std::size_t count = tier.experts.size(), fewest = (count + rule_.group - 1) / rule_.group;
    const std::size_t graphs = std::max(fewest, std::min<std::size_t>(rule_.units, count / 2));
    for (std::size_t g = 0; g < graphs; ++g) {
      const auto begin = tier.experts.begin() + static_cast<std::ptrdiff_t>(g * count / graphs);
      const auto end = tier.experts.begin() + static_cast<std::ptrdiff_t>((g + 1) * count / graphs);
      groups.push_back({{begin, end}, tier.capacity, 0, 0, false});
    }
  }

  const LayerLoad& load_;
  const GroupRule& rule_;
  std::vector<std::uint16_t> by_load_;  // the hottest first
};

}  // namespace

void share_out(std::vector<StaticGroup>& groups, std::uint32_t units) {
  std::stable_sort(groups.begin(), groups.end(), [](const StaticGroup& a, const StaticGroup& b) {
    return std::pair(a.experts.size(), a.rows()) > std::pair(b.experts.size(), b.rows());
  });
  std::vector<std::pair<std::size_t, std::uint32_t>> load(units);
  for (StaticGroup& group : groups) {
    group.unit = static_cast<std::uint32_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[group.unit].first += group.experts.size();
    load[group.unit].second += group.rows();
  }
}

LayerPlacement lay_out(std::vector<StaticGroup> groups, std::size_t experts) {
  LayerPlacement out;
  out.groups = std::move(groups);
  std::stable_sort(out.groups.begin(), out.groups.end(), [](const StaticGroup& a, const StaticGroup& b) { return a.unit < b.unit; });
  out.capacity.resize(experts);
  out.first.resize(experts);
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

double expected_padding(const LayerLoad& load, const LayerPlacement& placement) {
  double computed = 0;
  for (std::size_t e = 0; e < load.expected.size(); ++e) {
    // Of an expert that was merged into a larger tier no more overflows than was expected of its own.
    const double beyond = placement.capacity[e] == 0 || load.overflow.empty() ? 0 : load.overflow[e];
    computed += std::min(load.expected[e] - beyond, placement.capacity[e] == 0 ? load.expected[e] : placement.capacity[e]);
  }
  double taken = 0;
  for (std::size_t e = 0; e < load.expected.size(); ++e) {
    if (placement.capacity[e] == 0) taken += load.expected[e];
  }
  const double padded = placement.rows - (computed - taken);
  return padded + computed <= 0 ? 0 : padded / (padded + computed);
}

std::vector<StaticGroup> group_experts(const LayerLoad& load, const GroupRule& rule) {
  VITRO_CHECK(load.expected.size() == load.capacity.size() && rule.group > 0 && rule.units > 0, "experts without capacities or a place");
  const Grouping grouping(load, rule);
  for (std::size_t warm = grouping.warm();; --warm) {
    std::vector<StaticGroup> groups = grouping.groups(warm);
    const auto padding = [&] { return expected_padding(load, lay_out(groups, load.expected.size())); };
    if (!rule.residency || warm == 0 || padding() <= rule.max_padding) return groups;
  }
}

LayerPlacement place_experts(const LayerLoad& load, const GroupRule& rule) {
  std::vector<StaticGroup> groups = group_experts(load, rule);
  share_out(groups, rule.units);
  return lay_out(std::move(groups), load.expected.size());
}

}  // namespace vitro
