#include "engine/parts/ffn/experts/expert_overflow.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

// Probability of each number of rows. Weights relative to the likeliest number, since that one alone never underflows.
std::vector<double> binomial(std::uint32_t rows, double probability) {
  std::vector<double> mass(rows + 1, 0.0);
  const auto mode = std::min(rows, static_cast<std::uint32_t>((rows + 1) * probability));
  mass[mode] = 1;
  const double odds = probability / (1 - probability);
  for (std::uint32_t x = mode; x < rows; ++x) mass[x + 1] = mass[x] * odds * (rows - x) / (x + 1);
  for (std::uint32_t x = mode; x > 0; --x) mass[x - 1] = mass[x] / odds * x / (rows - x + 1);
  double sum = 0;
  for (const double m : mass) sum += m;
  for (double& m : mass) m /= sum;
  return mass;
}

// The mean of max(0, n - c) for each c, n being of such a distribution.
std::vector<double> mean_beyond(const std::vector<double>& mass) {
  std::vector<double> beyond(mass.size(), 0.0);
  double above = 0;  // probability of more than c rows
  for (std::size_t c = mass.size() - 1; c > 0; --c) {
    above += mass[c];
    beyond[c - 1] = beyond[c] + above;
  }
  return beyond;
}

}  // namespace

OverflowCurve::OverflowCurve(std::uint32_t rows, double probability, std::span<const std::uint32_t> counts)
    : expected_(probability * rows), beyond_(rows + 1, 0.0) {
  VITRO_CHECK(probability >= 0 && probability <= 1, "the probability of an expert is out of range");
  if (probability >= 1) {
    for (std::uint32_t c = 0; c <= rows; ++c) beyond_[c] = rows - c;
  } else if (probability > 0) {
    beyond_ = mean_beyond(binomial(rows, probability));
  }
  if (counts.empty()) return;
  std::vector<double> seen(rows + 1, 0.0);
  for (const std::uint32_t count : counts) seen.at(count) += 1.0 / static_cast<double>(counts.size());
  const std::vector<double> calibrated = mean_beyond(seen);
  for (std::uint32_t c = 0; c <= rows; ++c) beyond_[c] = std::max(beyond_[c], calibrated[c]);
}

}  // namespace vitro
