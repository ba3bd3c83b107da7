#include "engine/kernels/fp16_attention/flash_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/check.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::fp16_attention {
namespace {

using Half = std::uint16_t;

constexpr Half kMinusInfinity = 0xfc00;

float rounded(float x) { return half_to_float(float_to_half(x)); }

std::vector<float> values_of(std::span<const Half> halves) {
  std::vector<float> values(halves.size());
  std::ranges::transform(halves, values.begin(), [](Half half) { return half_to_float(half); });
  return values;
}

// One tile of queries against all keys.
class QueryTile {
 public:
  QueryTile(const AttentionShape& shape, std::size_t rows, std::span<const Half> table, ExpBy by)
      : shape_(shape), table_(table), by_(by), top_(rows, half_to_float(kMinusInfinity)), sum_(rows, 0), out_(rows * shape.dim, 0) {}

  // s: [rows, keys of the tile], fp16 values. Lines 3 to 6 of Algorithm 1.
  void add(const std::vector<float>& s, std::size_t keys, const float* v) {
    std::vector<float> p(keys);
    for (std::size_t r = 0; r < top_.size(); ++r) {
      const float* row = s.data() + r * keys;
      const float top = std::max(top_[r], *std::max_element(row, row + keys));
      const float kept = top_[r] == top ? 1 : exp(rounded(top_[r] - top));  // the first tile has nothing to keep: 2^-inf
      for (std::size_t i = 0; i < keys; ++i) p[i] = exp(rounded(row[i] - top));
      sum_[r] = rounded(kept * sum_[r] + total(p));
      for (std::size_t d = 0; d < shape_.dim; ++d) {
        float sum = kept * out_[r * shape_.dim + d];
        for (std::size_t i = 0; i < keys; ++i) sum += p[i] * v[i * shape_.dim + d];
        out_[r * shape_.dim + d] = rounded(sum);
      }
      top_[r] = top;
    }
  }

  void finish(Half* out) const {
    for (std::size_t r = 0; r < top_.size(); ++r) {
      const float share = 1 / sum_[r];
      for (std::size_t d = 0; d < shape_.dim; ++d) out[r * shape_.dim + d] = float_to_half(out_[r * shape_.dim + d] * share);
    }
  }

 private:
  // x: fp16 value, not above 0.
  float exp(float x) const {
    if (by_ == ExpBy::exact) return rounded(static_cast<float>(std::exp2(static_cast<double>(x))));
    return half_to_float(table_[float_to_half(x) & 0x7fffu]);
  }

  // 32 lanes, one key of each tile of HMX in turn; then lanes 16 apart, 8, 4, 2, 1.
  static float total(const std::vector<float>& p) {
    constexpr std::size_t kLanes = 32;
    float lanes[kLanes] = {};
    for (std::size_t i = 0; i < p.size(); ++i) lanes[i % kLanes] += p[i];
    for (std::size_t apart = kLanes / 2; apart > 0; apart /= 2) {
      for (std::size_t i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
    }
    return lanes[0];
  }

  const AttentionShape& shape_;
  std::span<const Half> table_;
  ExpBy by_;
  std::vector<float> top_, sum_, out_;  // fp16 values
};

}  // namespace

std::vector<Half> flash_attention(const AttentionShape& shape, std::span<const Half> q, std::span<const Half> k, std::span<const Half> v,
                                  float scale, std::span<const Half> table, ExpBy by) {
  VITRO_CHECK(q.size() == shape.queries * shape.dim && k.size() == shape.keys * shape.dim && v.size() == k.size() && shape.keys > 0,
              "attention operands of other shapes");
  const float base2 = scale * std::numbers::log2e_v<float>;
  const std::vector<float> key_values = values_of(k), values = values_of(v);
  std::vector<Half> out(q.size());
  for (std::size_t first = 0; first < shape.queries; first += shape.query_tile) {
    const std::size_t rows = std::min(shape.query_tile, shape.queries - first);
    std::vector<float> scaled(rows * shape.dim);
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = rounded(half_to_float(q[first * shape.dim + i]) * base2);
    QueryTile tile(shape, rows, table, by);
    for (std::size_t key = 0; key < shape.keys; key += shape.key_tile) {
      const std::size_t keys = std::min(shape.key_tile, shape.keys - key);
      std::vector<float> s(rows * keys);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < keys; ++i) {
          float dot = 0;
          for (std::size_t d = 0; d < shape.dim; ++d) dot += scaled[r * shape.dim + d] * key_values[(key + i) * shape.dim + d];
          s[r * keys + i] = rounded(dot);
        }
      }
      tile.add(s, keys, &values[key * shape.dim]);
    }
    tile.finish(out.data() + first * shape.dim);
  }
  return out;
}

}  // namespace vitro::fp16_attention
