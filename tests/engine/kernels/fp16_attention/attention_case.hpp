// Attention drawn at random, and what it is in double with a bound of fp16's error.
#pragma once
#include <algorithm>
#include <cmath>

#include "engine/base/rng.hpp"
#include "engine/kernels/fp16_attention/flash_attention.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::fp16_attention {

using Halves = std::vector<std::uint16_t>;

inline Halves draw(Rng& rng, std::size_t n, double scale) {
  Halves out(n);
  for (auto& x : out) x = float_to_half(static_cast<float>(scale * rng.normal()));
  return out;
}

struct AttentionCase {
  AttentionShape shape;
  Halves q, k, v;
  float scale;
};

inline AttentionCase draw_case(Rng& rng, AttentionShape shape, double spread = 1) {
  return {shape, draw(rng, shape.queries * shape.dim, spread), draw(rng, shape.keys * shape.dim, 1), draw(rng, shape.keys * shape.dim, 1),
          1 / std::sqrt(static_cast<float>(shape.dim))};
}

// In double, and beside it how far fp16 may be off: u per rounding, 2^-11 to the nearest.
//   s: Q is rounded (u sum |q k|), the product accumulates in float (below u / 100 of the same for dim <= 128) and s is rounded, as is
//   s - m: an exponent is off by delta = u (1.01 sum |q k| + 2 max |s| + max |m|), a probability by a factor 2^delta; m cancels.
//   P is rounded: u. A tile's rescaling adds three roundings to sum and output each, of which there are tiles; the quotient two.
struct Exact {
  std::vector<double> out, bound;
};
inline Exact exact(const AttentionCase& c, double u = 0x1p-11) {
  const auto [queries, keys, dim, query_tile, key_tile] = c.shape;
  const double base2 = c.scale * std::log2(std::exp(1.0)), tiles = std::ceil(static_cast<double>(keys) / static_cast<double>(key_tile));
  Exact e;
  const auto value = [](const Halves& x, std::size_t i) { return static_cast<double>(half_to_float(x[i])); };
  for (std::size_t r = 0; r < queries; ++r) {
    std::vector<double> s(keys);
    double most = 0, magnitudes = 0;
    for (std::size_t i = 0; i < keys; ++i) {
      double magnitude = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        const double product = value(c.q, r * dim + d) * value(c.k, i * dim + d) * base2;
        s[i] += product;
        magnitude += std::abs(product);
      }
      most = std::max(most, std::abs(s[i]));
      magnitudes = std::max(magnitudes, magnitude);
    }
    const double top = *std::max_element(s.begin(), s.end());
    double sum = 0;
    for (double& x : s) sum += x = std::exp2(x - top);
    const double delta = u * (1.01 * magnitudes + 5 * most);
    // Twice: numerator and denominator. An exp below 2^-25 vanishes.
    const double relative = 2 * (std::exp2(delta) - 1 + u * (2 + 3 * tiles)) + 2 * u, vanished = static_cast<double>(keys) * 0x1p-24 / sum;
    for (std::size_t d = 0; d < dim; ++d) {
      double y = 0, magnitude = 0, largest = 0;
      for (std::size_t i = 0; i < keys; ++i) {
        const double term = s[i] / sum * value(c.v, i * dim + d);
        y += term;
        magnitude += std::abs(term);
        largest = std::max(largest, std::abs(value(c.v, i * dim + d)));
      }
      e.out.push_back(y);
      e.bound.push_back(magnitude * relative + 2 * largest * vanished + 0x1p-24);
    }
  }
  return e;
}

}  // namespace vitro::fp16_attention
