#include "traces/firing_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "engine/base/check.hpp"
#include "traces/draw.hpp"

namespace vitro {
namespace {

std::uint64_t common(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  std::uint64_t n = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    n += *i == *j;
    *i < *j ? ++i : *j < *i ? ++j : (++i, ++j);
  }
  return n;
}

// Keys ascend by layer, expert, sequence and position: the token before stands right before.
bool follows(const std::pair<const OutcomeKey, FiredNeurons>* before, const OutcomeKey& key) {
  return before != nullptr && before->first.layer == key.layer && before->first.expert == key.expert &&
         before->first.at.sequence == key.at.sequence && before->first.at.position + 1 == key.at.position;
}

struct Counted {
  double fired = 0, fresh = 0;
  bool follows = false;
};

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The mean product of distances from the mean.
double covariance(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return a.empty() ? 0 : sum / static_cast<double>(a.size());
}

double spread_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  return mean == 0 ? 0 : std::sqrt(covariance(values, values)) / mean;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double both = covariance(a, a) * covariance(b, b);
  return both == 0 ? 0 : covariance(a, b) / std::sqrt(both);
}

double share_of_hottest_fifth(std::vector<double> values) {
  std::sort(values.begin(), values.end(), std::greater<>());
  const double all = std::accumulate(values.begin(), values.end(), 0.0);
  const auto fifth = static_cast<std::ptrdiff_t>((values.size() + 4) / 5);
  return all == 0 ? 0 : std::accumulate(values.begin(), values.begin() + fifth, 0.0) / all;
}

}  // namespace

std::vector<LayerFiring> firing_statistics(const Recording& recording, std::uint32_t neurons) {
  std::map<std::pair<std::int16_t, std::int16_t>, LayerFiring> found;
  std::map<std::pair<std::int16_t, std::int16_t>, std::pair<std::uint64_t, std::uint64_t>> repeats;  // repeated, of
  const std::pair<const OutcomeKey, FiredNeurons>* before = nullptr;
  for (const auto& entry : recording.fired) {
    const auto& [key, fired] = entry;
    LayerFiring& firing = found[{key.layer, key.expert}];
    firing.layer = key.layer, firing.expert = key.expert;
    firing.counts.resize(neurons);
    ++firing.tokens;
    for (const std::uint32_t id : fired.ids) {
      if (id >= neurons)
        throw ConfigError(
            fmt::format("the recording has neuron {} at {} (expected below {}: a recording of this model)", id, to_string(key), neurons));
      ++firing.counts[id];
    }
    if (follows(before, key)) {
      auto& [repeated, of] = repeats[{key.layer, key.expert}];
      repeated += common(before->second.ids, fired.ids);
      of += fired.ids.size();
    }
    before = &entry;
  }
  std::vector<LayerFiring> out;
  for (auto& [where, firing] : found) {
    const double fired = static_cast<double>(std::accumulate(firing.counts.begin(), firing.counts.end(), std::uint64_t{0}));
    firing.active = fired / static_cast<double>(firing.tokens) / neurons;
    firing.hot_share = share_of_hottest_fifth({firing.counts.begin(), firing.counts.end()});
    const auto [repeated, of] = repeats[where];
    firing.repeated = of == 0 ? 0 : static_cast<double>(repeated) / static_cast<double>(of);
    out.push_back(std::move(firing));
  }
  return out;
}

TokenFiring token_statistics(const Recording& recording) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Counted> tokens;
  std::map<std::pair<std::int16_t, std::int16_t>, std::vector<double>> by_ffn;
  const std::pair<const OutcomeKey, FiredNeurons>* before = nullptr;
  for (const auto& entry : recording.fired) {
    const auto& [key, fired] = entry;
    Counted& token = tokens[{key.at.sequence, key.at.position}];
    token.fired += static_cast<double>(fired.ids.size());
    by_ffn[{key.layer, key.expert}].push_back(static_cast<double>(fired.ids.size()));
    if (follows(before, key)) {
      token.follows = true;
      token.fresh += static_cast<double>(fired.ids.size() - common(before->second.ids, fired.ids));
    }
    before = &entry;
  }
  TokenFiring out;
  out.tokens = tokens.size();
  if (tokens.size() < 2) return out;
  std::vector<double> fired, fresh, now, last;
  double fresh_share = 0;
  for (auto it = tokens.begin(); it != tokens.end(); ++it) {
    fired.push_back(it->second.fired);
    if (!it->second.follows) continue;
    fresh.push_back(it->second.fresh);
    fresh_share += it->second.fired == 0 ? 0 : it->second.fresh / it->second.fired;
    const auto earlier = tokens.find({it->first.first, it->first.second - 1});
    now.push_back(it->second.fired), last.push_back(earlier->second.fired);
  }
  out.spread = spread_of(fired);
  out.fresh_spread = spread_of(fresh);
  out.fresh = fresh.empty() ? 0 : fresh_share / static_cast<double>(fresh.size());
  out.lasting = correlation(last, now);
  double fired_in_all = 0;
  for (const auto& [ffn, numbers] : by_ffn) {
    out.layer_spread += mean_of(numbers) * spread_of(numbers);
    fired_in_all += mean_of(numbers);
  }
  if (fired_in_all > 0) out.layer_spread /= fired_in_all;
  double alike = 0, neighbours = 0, neighbour_pairs = 0, shared = 0, pairs = 0;
  for (auto a = by_ffn.begin(); a != by_ffn.end(); ++a) {
    for (auto b = std::next(a); b != by_ffn.end(); ++b) {
      if (a->second.size() != b->second.size()) continue;  // experts: not the same tokens
      const double means = mean_of(a->second) * mean_of(b->second);
      const double both = correlation(a->second, b->second);
      alike += both;
      if (b == std::next(a)) neighbours += both, ++neighbour_pairs;
      shared += means == 0 ? 0 : covariance(a->second, b->second) / means;
      ++pairs;
    }
  }
  if (pairs == 0) return out;
  out.layers_alike = alike / pairs;
  if (neighbour_pairs > 0) out.neighbours_alike = neighbours / neighbour_pairs;
  out.shared = std::sqrt(std::max(0.0, shared / pairs));
  return out;
}

std::vector<std::uint32_t> hottest_first(const LayerFiring& firing) {
  std::vector<std::uint32_t> ids(firing.counts.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(), [&](std::uint32_t a, std::uint32_t b) { return firing.counts[a] > firing.counts[b]; });
  return ids;
}

double fitted_skew(const LayerFiring& firing) {
  const auto neurons = static_cast<std::uint32_t>(firing.counts.size());
  double low = 0, high = 4;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    DrawProfile profile;
    profile.layers = {{firing.active, middle}};
    const DrawFunction draw(profile, 1);
    (share_of_hottest_fifth(draw.firing_probability(0, -1, neurons)) < firing.hot_share ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace vitro
