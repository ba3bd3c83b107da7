#include "engine/quant/q4_k.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr std::size_t kGroups = kSuperBlock / kBlock;
constexpr float kMostCode = 15, kMostScale = 63;

// A group's values are scale * q - minimum.
struct Group {
  float scale = 0, minimum = 0;
};

float code(float x, Group g) { return g.scale == 0 ? 0 : std::clamp(std::floor((x + g.minimum) / g.scale + 0.5f), 0.0f, kMostCode); }

double squared_error(const float* x, Group g) {
  double sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const double off = double{x[i]} - (double{g.scale} * double{code(x[i], g)} - double{g.minimum});
    sum += off * off;
  }
  return sum;
}

// The scale and minimum of least squares for the codes that `g` gives; a minimum below zero is not one that can be stored.
Group refined(const float* x, Group g) {
  double n = kBlock, q1 = 0, q2 = 0, x1 = 0, xq = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const double q = code(x[i], g);
    q1 += q;
    q2 += q * q;
    x1 += double{x[i]};
    xq += q * double{x[i]};
  }
  const double determinant = n * q2 - q1 * q1;
  if (determinant > 0) {
    const double scale = (n * xq - q1 * x1) / determinant, minimum = (q1 * xq - q2 * x1) / determinant;
    if (scale > 0 && minimum >= 0) return {static_cast<float>(scale), static_cast<float>(minimum)};
  }
  return {q2 > 0 && xq > 0 ? static_cast<float>(xq / q2) : 0, 0};
}

Group search(const float* x) {
  const float low = std::min(0.0f, *std::min_element(x, x + kBlock)), high = *std::max_element(x, x + kBlock);
  Group best{0, 0};
  if (!(high > low)) return {0, -low};
  double least = squared_error(x, best);
  for (const float shrink : {1.0f, 0.9f, 1.1f, 1.2f, 1.3f}) {
    const Group plain{(high - low) / kMostCode / shrink, -low / shrink};
    for (const Group g : {plain, refined(x, plain)}) {
      const double error = squared_error(x, g);
      if (error < least) best = g, least = error;
    }
  }
  return best;
}

void store_half(std::byte* at, std::uint16_t half) {
  at[0] = static_cast<std::byte>(half & 0xff);
  at[1] = static_cast<std::byte>(half >> 8);
}

unsigned six_bits(float value, float unit) { return unit == 0 ? 0 : static_cast<unsigned>(std::min(kMostScale, std::round(value / unit))); }

}  // namespace

void quantise_q4_k(const float* in, std::byte* out) {
  std::array<Group, kGroups> groups;
  Group largest;
  for (std::size_t j = 0; j < kGroups; ++j) {
    groups[j] = search(in + j * kBlock);
    largest.scale = std::max(largest.scale, groups[j].scale);
    largest.minimum = std::max(largest.minimum, groups[j].minimum);
  }
  const std::uint16_t d = float_to_half(largest.scale / kMostScale), dmin = float_to_half(largest.minimum / kMostScale);
  const float scale_unit = half_to_float(d), minimum_unit = half_to_float(dmin);
  store_half(out, d);
  store_half(out + 2, dmin);
  std::array<unsigned, 12> packed{};
  std::array<std::uint8_t, kSuperBlock> codes{};
  for (std::size_t j = 0; j < kGroups; ++j) {
    const unsigned scale = six_bits(groups[j].scale, scale_unit), minimum = six_bits(groups[j].minimum, minimum_unit);
    if (j < 4) {
      packed[j] |= scale;
      packed[j + 4] |= minimum;
    } else {
      packed[j + 4] = (scale & 15) | (minimum & 15) << 4;
      packed[j - 4] |= scale >> 4 << 6;
      packed[j] |= minimum >> 4 << 6;
    }
    const Group stored{scale_unit * static_cast<float>(scale), minimum_unit * static_cast<float>(minimum)};
    for (std::size_t i = 0; i < kBlock; ++i) codes[j * kBlock + i] = static_cast<std::uint8_t>(code(in[j * kBlock + i], stored));
  }
  for (std::size_t i = 0; i < packed.size(); ++i) out[4 + i] = static_cast<std::byte>(packed[i]);
  for (std::size_t j = 0; j < kGroups; j += 2) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      out[16 + j / 2 * kBlock + i] = static_cast<std::byte>(codes[j * kBlock + i] | codes[(j + 1) * kBlock + i] << 4);
    }
  }
}

}  // namespace vitro
