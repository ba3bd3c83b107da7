#include "engine/parts/ffn/experts/load_monitor.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/parts/ffn/experts/expert_drift.hpp"

namespace vitro {
namespace {

std::vector<std::size_t> hottest(std::size_t k, const std::vector<double>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  order.resize(k);
  return order;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

double overlap_at(std::size_t k, const std::vector<double>& one, const std::vector<double>& other) {
  VITRO_CHECK(one.size() == other.size() && k > 0 && k <= one.size(), "overlap of unlike lists");
  const std::vector<std::size_t> a = hottest(k, one), b = hottest(k, other);
  const auto common = std::ranges::count_if(a, [&](std::size_t expert) { return std::ranges::find(b, expert) != b.end(); });
  return static_cast<double>(common) / static_cast<double>(k);
}

LoadMonitor::LoadMonitor(ExpertLoads expected, std::uint32_t chunk) : expected_(std::move(expected)), chunk_(chunk) { forget(); }

void LoadMonitor::observe(std::size_t layer, const std::vector<std::uint32_t>& chose, std::uint32_t rows) {
  std::vector<double>& own = observed_.at(layer);
  VITRO_CHECK(chose.size() == own.size(), "a step of another mixture");
  for (std::size_t e = 0; e < own.size(); ++e) own[e] += chose[e];
  if (rows != chunk_) return;
  chunks_[layer].push_back(chose);
  if (chunks_[layer].size() > kMostChunks) chunks_[layer].erase(chunks_[layer].begin());
}

std::optional<double> LoadMonitor::overlap(std::size_t k) const {
  std::vector<double> each;
  for (std::size_t layer = 0; layer < expected_.size(); ++layer) {
    if (sum_of(observed_[layer]) > 0) each.push_back(overlap_at(k, expected_[layer], observed_[layer]));
  }
  if (each.empty()) return std::nullopt;
  std::sort(each.begin(), each.end());
  return (each[(each.size() - 1) / 2] + each[each.size() / 2]) / 2;
}

ExpertLoads LoadMonitor::observed() const {
  ExpertLoads out = observed_;
  for (std::vector<double>& layer : out) {
    const double pairs = sum_of(layer);
    for (double& share : layer) share = pairs > 0 ? share / pairs : 0;
  }
  return out;
}

ExpertLoads LoadMonitor::loads() const { return halfway(expected_, observed()); }

ChunkCounts LoadMonitor::chunks() const {
  const auto alike = [&](const auto& layer) { return layer.size() == chunks_.front().size() && !layer.empty(); };
  return std::ranges::all_of(chunks_, alike) ? chunks_ : ChunkCounts{};
}

void LoadMonitor::follow(ExpertLoads expected) {
  expected_ = std::move(expected);
  forget();
}

void LoadMonitor::forget() {
  observed_.clear();
  for (const std::vector<double>& layer : expected_) observed_.emplace_back(layer.size(), 0.0);
  chunks_.assign(expected_.size(), {});
}

}  // namespace vitro
