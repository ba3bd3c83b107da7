#include "engine/kernels/lut/flash_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/rng.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::lut {
namespace {

using Halves = std::vector<std::uint16_t>;

Halves draw(Rng& rng, std::size_t n, double scale) {
  Halves out(n);
  for (auto& x : out) x = float_to_half(static_cast<float>(scale * rng.normal()));
  return out;
}

struct Case {
  AttentionShape shape;
  Halves q, k, v;
  float scale;
};

Case draw_case(Rng& rng, AttentionShape shape, double spread = 1) {
  return {shape, draw(rng, shape.queries * shape.dim, spread), draw(rng, shape.keys * shape.dim, 1), draw(rng, shape.keys * shape.dim, 1),
          1 / std::sqrt(static_cast<float>(shape.dim))};
}

Halves attend(const Case& c, ExpBy by = ExpBy::table) {
  static const Halves table = exp2_table();
  return flash_attention(c.shape, c.q, c.k, c.v, c.scale, table, by);
}

// In double, and beside it how far fp16 may be off: u = 2^-11 per rounding.
//   s: Q is rounded (u sum |q k|), the product accumulates in float (below u / 100 of the same for dim <= 128) and s is rounded, as is
//   s - m: an exponent is off by delta = u (1.01 sum |q k| + 2 max |s| + max |m|), a probability by a factor 2^delta; m cancels.
//   P is rounded: u. A tile's rescaling adds three roundings to sum and output each, of which there are tiles; the quotient one.
struct Exact {
  std::vector<double> out, bound;
};
Exact exact(const Case& c) {
  constexpr double u = 0x1p-11;
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
    const double relative = 2 * (std::exp2(delta) - 1 + u * (2 + 3 * tiles)) + u, vanished = static_cast<double>(keys) * 0x1p-24 / sum;
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

TEST(FlashAttention, is_attention_within_its_bound) {
  Rng rng(1);
  for (const AttentionShape shape : {AttentionShape{1, 1, 32}, {1, 200, 64}, {40, 33, 64}, {70, 129, 32}, {8, 300, 128, 4, 16}}) {
    const Case c = draw_case(rng, shape);
    const Halves out = attend(c);
    const Exact e = exact(c);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(half_to_float(out[i]), e.out[i], e.bound[i]) << i;
  }
}

TEST(FlashAttention, the_table_is_exp) {
  Rng rng(2);
  for (const double spread : {0.1, 1.0, 8.0}) {
    const Case c = draw_case(rng, {33, 100, 64}, spread);
    EXPECT_EQ(attend(c, ExpBy::table), attend(c, ExpBy::exact));
  }
}

TEST(FlashAttention, a_wrong_table_is_seen) {
  Rng rng(3);
  const Case c = draw_case(rng, {4, 64, 32});
  Halves table = exp2_table();
  for (std::size_t i = 0x3800; i < 0x4400; ++i) table[i] = table[i / 2];
  const Halves out = flash_attention(c.shape, c.q, c.k, c.v, c.scale, table);
  const Exact e = exact(c);
  std::size_t off = 0;
  for (std::size_t i = 0; i < out.size(); ++i) off += std::abs(half_to_float(out[i]) - e.out[i]) > e.bound[i];
  EXPECT_GT(off, out.size() / 2);
}

TEST(FlashAttention, one_key_is_its_value) {
  Rng rng(4);
  const Case c = draw_case(rng, {5, 1, 16}, 20);
  const Halves out = attend(c);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], c.v[i % 16]);
}

}  // namespace
}  // namespace vitro::lut
