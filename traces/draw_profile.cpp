#include "traces/draw_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

// min(1, c * shape[i]) with the c that makes their mean, weighted, `fraction`: found by bisection. `high`: a c at which the
// mean is at least that.
std::vector<double> capped(const std::vector<double>& shape, const std::vector<double>& weight, double fraction, double high) {
  std::vector<double> out(shape.size());
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  const auto mean = [&](double c) {
    double sum = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) sum += weight[i] * (out[i] = std::min(1.0, c * shape[i]));
    return sum / total;
  };
  double low = 0;
  for (int step = 0; step < 100 && !shape.empty(); ++step) {
    const double middle = (low + high) / 2;
    (mean(middle) < fraction ? low : high) = middle;
  }
  if (!shape.empty()) mean(high);
  return out;
}

// A power law of the rank, capped at 1, with the mean `fraction`.
std::vector<double> capped_power_law(std::uint32_t n, double skew, double fraction) {
  std::vector<double> shape(n);
  for (std::uint32_t r = 0; r < n; ++r) shape[r] = std::pow(r + 1.0, -skew);
  return capped(shape, std::vector<double>(n, 1.0), fraction, n == 0 ? 0 : 1 / shape.back());  // there every neuron fires
}

// Through the points, level beyond them. Rank r stands for the share of neurons up to and including it.
std::vector<double> through(const std::vector<FiringProfile::Point>& points, std::uint32_t n) {
  std::vector<double> out(n);
  for (std::uint32_t r = 0; r < n; ++r) {
    const double at = (r + 1.0) / n;
    const auto after = std::find_if(points.begin(), points.end(), [&](const auto& point) { return point.neurons >= at; });
    if (after == points.begin() || after == points.end()) {
      out[r] = (after == points.end() ? points.back() : points.front()).probability;
      continue;
    }
    const auto before = std::prev(after);
    const double way = std::log(at / before->neurons) / std::log(after->neurons / before->neurons);
    out[r] = before->probability * std::pow(after->probability / before->probability, way);
  }
  return out;
}

void check_curve(std::size_t layer, const std::vector<FiringProfile::Point>& points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [neurons, probability] = points[i];
    const bool in_range = neurons > 0 && neurons <= 1 && probability > 0 && probability <= 1;
    if (in_range && (i == 0 || (neurons > points[i - 1].neurons && probability <= points[i - 1].probability))) continue;
    throw ConfigError(
        fmt::format("activation profile: layer {}: curve point {}: {} of the neurons, probability {} (expected both above 0 and at most 1, "
                    "ascending shares, descending probabilities)",
                    layer, i, neurons, probability));
  }
}

}  // namespace

void check(const DrawProfile& profile) {
  const auto check = [](const std::string& what, double value, double max) {
    if (!(value >= 0 && value <= max)) throw ConfigError(fmt::format("activation profile: {} {} (expected 0 to {})", what, value, max));
  };
  if (profile.layers.empty()) throw ConfigError("activation profile: there is no layer");
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    check(fmt::format("layer {}: firing fraction", i), profile.layers[i].fraction, 1);
    check(fmt::format("layer {}: skew", i), profile.layers[i].skew, 10);
    check_curve(i, profile.layers[i].curve);
  }
  check("expert skew", profile.expert_skew, 10);
  check("persistence", profile.persistence, 1);
  check("expert persistence", profile.expert_persistence, 1);
  check("expert foresight", profile.expert_foresight, 1);
  check("activity spread", profile.activity_spread, 1);
  check("layer correlation", profile.layer_correlation, 1);
  check("task share", profile.task_share, 1);
  check("predictor recall", profile.predictor.recall, 1);
  check("predictor precision", profile.predictor.precision, 1);
  if (profile.predictor.precision == 0) throw ConfigError("activation profile: a predictor precision of 0 (expected above 0 to 1)");
  if (profile.stretch == 0) throw ConfigError("activation profile: a stretch of 0 tokens (expected 1 or more)");
}

std::vector<double> firing_curve(const FiringProfile& firing, std::uint32_t neurons) {
  return firing.curve.empty() ? capped_power_law(neurons, firing.skew, firing.fraction) : through(firing.curve, neurons);
}

std::vector<double> false_alarms(const std::vector<double>& firing, const PredictorProfile& predictor) {
  std::vector<double> silent(firing.size());
  std::transform(firing.begin(), firing.end(), silent.begin(), [](double p) { return 1 - p; });
  const double fired = std::accumulate(firing.begin(), firing.end(), 0.0);
  const double silence = std::accumulate(silent.begin(), silent.end(), 0.0);
  double rarest = 1;
  for (const double p : firing) rarest = p > 0 ? std::min(rarest, p) : rarest;
  if (predictor.precision == 1 || silence == 0) return std::vector<double>(firing.size(), 0.0);
  return capped(firing, silent, predictor.recall * fired * (1 / predictor.precision - 1) / silence, 1 / rarest);
}

}  // namespace vitro
