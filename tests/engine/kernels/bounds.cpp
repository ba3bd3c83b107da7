// Long because each operator has its bound, and all are derived from the same few roundings.
#include "tests/engine/kernels/bounds.hpp"

#include <cmath>
#include <cstring>

#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/float16.hpp"
#include "engine/quant/k_tiles.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro::test {
namespace {

constexpr double kUnit = 0x1p-24;   // of float32 rounding
constexpr double kExp = 4 * kUnit;  // relative error of exp(), see Exp.stays_within_its_bound

double gamma(double n) { return n * kUnit / (1 - n * kUnit); }
// Roundings that an element of a 16-lane sum of n passes through.
double lane_roundings(std::size_t n) { return static_cast<double>((n + 15) / 16) + 4; }

std::vector<double> row_of(const View& view, std::size_t row) {
  const std::size_t k = columns(view), stride = row_bytes(view.format, k);
  const std::size_t group = group_rows(view.layout);
  std::vector<std::byte> bytes(group * stride);
  const std::byte* data = view.data() + row * stride;
  if (view.layout != Layout::rows) {
    const Bytes packed = row_bytes(view.format, k, view.layout);
    unpack_tile(view.format, k, view.data() + row / group * group * packed, bytes.data(), view.layout);
    data = bytes.data() + row % group * stride;
  }
  std::vector<float> values(k);
  dequantise_row(view.format, data, values.data(), k);
  return {values.begin(), values.end()};
}

// Of each column what q4_k or q5_k takes off.
std::vector<double> minima_of(const View& w, std::size_t row) {
  const std::size_t k = columns(w), stride = row_bytes(w.format, k), block = block_bytes(w.format);
  std::vector<std::byte> bytes(kTileRows * stride);
  const std::byte* group = w.data() + row / kTileRows * kTileRows * stride;
  if (w.layout == Layout::rows) {
    std::memcpy(bytes.data() + row % kTileRows * stride, w.data() + row * stride, stride);
  } else {
    unpack_tile(w.format, k, group, bytes.data(), w.layout);
  }
  // Codes of zero leave the minimum alone.
  for (std::size_t at = row % kTileRows * stride; at < (row % kTileRows + 1) * stride; at += block) {
    std::fill_n(&bytes[at + 16], block - 16, std::byte{0});
  }
  std::vector<float> values(k);
  dequantise_row(w.format, &bytes[row % kTileRows * stride], values.data(), k);
  std::vector<double> minima;
  for (const float v : values) minima.push_back(-double{v});
  return minima;
}

double scale_of(const View& q4_0, std::size_t row, std::size_t block) {
  std::uint16_t half;
  std::memcpy(&half, q4_0.data() + row * row_bytes(q4_0.format, columns(q4_0)) + block * block_bytes(q4_0.format), sizeof half);
  return half_to_float(half);
}

class Bounds {
 public:
  explicit Bounds(const KernelCall& call) : call_(call), want_(values_of(call.out[0])), bound_(want_.size(), 0.0) {}
  std::vector<double> take() { return std::move(bound_); }

  void matmul() {
    const std::size_t n = call_.in[0].shape[0];
    for_each_run(call_, static_cast<std::uint32_t>(n), [&](Range run) {
      for (std::uint32_t row = run.first; row < run.end(); ++row) {
        const View& matrix = call_.in[0];
        const std::vector<double> w = row_of(matrix, row);
        const std::vector<double> minima =
            has_minima(matrix.format) && call_.variant == variant::kInt8 ? minima_of(matrix, row) : std::vector<double>(w.size(), 0.0);
        const double bias = call_.in.size() > 2 ? std::abs(call_.in[2].as<float>()[row]) : 0;
        for (std::size_t b = 0; b < call_.in[1].shape[0]; ++b) {
          const std::vector<double> x = row_of(call_.in[1], b);
          bound_[b * n + row] = call_.variant == variant::kInt8  ? int8_dot(w, minima, x, rounded_blocks(matrix.format))
                                : call_.variant == variant::kA16 ? half_dot(w, x)
                                                                 : float_dot(w, x);
          bound_[b * n + row] += 2 * kUnit * (bias + magnitude(w, x));  // the bias, and the rounding of the reference itself
        }
      }
    });
  }

  // The product's own bound, times the scale, and the rounding of what it is added to.
  void add_product() {
    const auto& op = call_.get<ops::AddProduct>();
    const std::size_t n = call_.in[0].shape[0];
    for_each_row(call_, [&](std::uint32_t row, Bytes) {
      const std::vector<double> w = row_of(call_.in[0], row);
      for (std::size_t b = 0; b < call_.in[1].shape[0]; ++b) {
        const std::vector<double> x = row_of(call_.in[1], b);
        const double before = op.continues ? std::abs(call_.out[0].as<float>()[b * n + row]) : 0;
        const double product = std::abs(double{op.scale}) * (magnitude(w, x) + float_dot(w, x));
        bound_[b * n + row] = std::abs(double{op.scale}) * float_dot(w, x) + 2 * kUnit * (before + product) + 0x1p-149;
      }
    });
  }

  // Of up to 16 rows that fire, and of one block: each coefficient is off by half a step and by the roundings of its making, and the sums
  // are added with one fused step each.
  void accumulate_int8() {
    const View& w = call_.in[0];
    const std::size_t n = w.shape[0], width = w.shape[1];
    for (std::size_t b = 0; b < call_.in[1].shape[0]; ++b) {
      std::vector<std::uint32_t> firing;
      for_each_row(call_, [&](std::uint32_t row, Bytes) {
        if (call_.in[1].as<float>()[b * n + row] != 0) firing.push_back(row);
      });
      const double steps = std::ceil(static_cast<double>(firing.size()) / 16) + 3;
      for (std::size_t first = 0; first < firing.size(); first += 16) {
        const std::vector<std::uint32_t> group(firing.begin() + first, firing.begin() + std::min(first + 16, firing.size()));
        for (std::size_t block = 0; block < width / kBlock; ++block) {
          double amax = 0;
          for (const std::uint32_t row : group)
            amax = std::max(amax, std::abs(call_.in[1].as<float>()[b * n + row] * scale_of(w, row, block)));
          const double of_one = amax / 127 * (0.5 + 127 * 5 * kUnit) + gamma(steps) * amax + 0x1p-100;
          for (const std::uint32_t row : group) {
            const double scale = scale_of(w, row, block);
            const std::vector<double> weights = row_of(w, row);
            for (std::size_t d = block * kBlock; scale != 0 && d < (block + 1) * kBlock; ++d)
              bound_[b * width + d] += std::abs(weights[d] / scale) * of_one;
          }
        }
      }
    }
  }

  // Each neuron is one fused step; the bound takes all that the call names, fired or not.
  void accumulate() {
    if (variant::adds_in_int8(call_.variant, call_.in[0].format)) return accumulate_int8();
    const std::size_t n = call_.in[0].shape[0], width = call_.in[0].shape[1];
    double steps = 0;
    for_each_row(call_, [&](std::uint32_t row, Bytes) {
      ++steps;
      const std::vector<double> w = row_of(call_.in[0], row);
      for (std::size_t b = 0; b < call_.in[1].shape[0]; ++b) {
        const double h = std::abs(call_.in[1].as<float>()[b * n + row]);
        for (std::size_t d = 0; d < width; ++d) bound_[b * width + d] += h * std::abs(w[d]);
      }
    });
    for (double& bound : bound_) bound = gamma(steps + 1) * bound + steps * 0x1p-149;
  }

  void rms_norm() {
    const std::size_t width = columns(call_.in[0]), heads = call_.in[0].shape[2] == 0 ? 1 : call_.in[0].shape[1];
    const Range slice = sliced_heads(call_, call_.in[0]);
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      if (const std::size_t head = i / width % heads; head < slice.first || head >= slice.end()) continue;
      const double y = std::abs(double{call_.in[0].as<float>()[i]} * call_.in[1].as<float>()[i % width]);
      bound_[i] = y * inverse_rms_of(i / width, call_.get<ops::RmsNorm>().eps) * gamma(lane_roundings(width) / 2 + 6);
    }
  }

  void inverse_rms() {
    const std::size_t width = columns(call_.in[0]);
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      bound_[i] = inverse_rms_of(i, call_.get<ops::InverseRms>().eps) * gamma(lane_roundings(width) / 2 + 4);
    }
  }

  void scale_rows() {
    const std::size_t width = columns(call_.in[0]);
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      const double xs = std::abs(double{call_.in[0].as<float>()[i]} * call_.in[1].as<float>()[i / width]);
      bound_[i] = xs * std::abs(call_.in[2].as<float>()[i % width]) * gamma(3);
    }
  }

  // The mean is off by `shift`, so each centred value by as much and its own rounding; the root's error follows from theirs.
  void layer_norm() {
    const std::size_t width = columns(call_.in[0]);
    const auto n = static_cast<double>(width);
    for (std::size_t r = 0; r < call_.in[0].shape[0]; ++r) {
      const std::vector<double> x = row_of(call_.in[0], r);
      double sum = 0, size = 0, squares = 0, off = 0;
      for (const double v : x) sum += v, size += std::abs(v);
      const double mean = sum / n, shift = gamma(lane_roundings(width) + 1) * size / n;
      for (const double v : x) squares += (v - mean) * (v - mean), off += std::pow(shift + kUnit * (std::abs(v - mean) + shift), 2);
      const double eps = call_.get<ops::LayerNorm>().eps, change = 2 * std::sqrt(squares * off) + off;
      const double root = 1 / std::sqrt(squares / n + eps), most = 1 / std::sqrt(std::max(squares - change, 0.0) / n + eps);
      for (std::size_t i = 0; i < width; ++i) {
        const double c = std::abs(x[i] - mean), w = std::abs(call_.in[1].as<float>()[i]), b = std::abs(call_.in[2].as<float>()[i]);
        const double centred = shift + kUnit * (c + shift);
        const double scaled = w * ((c + centred) * most * (1 + gamma(lane_roundings(width) / 2 + 6)) - c * root);
        bound_[r * width + i] = scaled + 2 * kUnit * (w * (c + centred) * most + b) + 1e-38;
      }
    }
  }

  // A sigmoid changes by no more than a factor e^d where its argument changes by d.
  void add_gated() {
    const std::size_t width = columns(call_.out[0]);
    const Range slice = sliced(call_, static_cast<std::uint32_t>(width));
    const std::vector<double> w = row_of(call_.in[3], 0);
    for (std::size_t r = 0; r < call_.out[0].shape[0]; ++r) {
      const std::vector<double> x = row_of(call_.in[2], r);
      double logit = 0;
      for (std::size_t k = 0; k < w.size(); ++k) logit += w[k] * x[k];
      const double gate = 1 / (1 + std::exp(-logit)), error = std::expm1(float_dot(w, x)) + kExp + gamma(6);
      for (std::size_t n = slice.first; n < slice.end(); ++n) {
        const double a = std::abs(call_.in[0].as<float>()[r * width + n]), b = std::abs(gate * call_.in[1].as<float>()[r * width + n]);
        bound_[r * width + n] = b * error + gamma(2) * (a + b * (1 + error)) + 1e-38;
      }
    }
  }

  void rope() {
    const std::size_t dim = call_.out[0].shape[2], heads = call_.out[0].shape[1];
    const auto& op = call_.get<ops::Rope>();
    const std::size_t pairs = op.dims / 2;
    const bool interleaved = op.style == RopeStyle::interleaved;
    const Range slice = sliced(call_, static_cast<std::uint32_t>(heads));
    for (std::size_t b = 0; b < call_.out[0].shape[0]; ++b) {
      for (std::size_t h = slice.first; h < slice.end(); ++h) {
        const std::size_t at = (b * heads + h) * dim;
        for (std::size_t i = 0; i < pairs; ++i) {
          const std::size_t first = at + (interleaved ? 2 * i : i), second = interleaved ? first + 1 : first + pairs;
          const double size = std::abs(call_.in[0].as<float>()[first]) + std::abs(call_.in[0].as<float>()[second]);
          bound_[first] = bound_[second] = gamma(3) * size;
        }
      }
    }
  }

  // Both implementations round the same float to the same half: nothing to allow.
  void exact() {}

  void attention() {
    const auto& op = call_.get<ops::Attention>();
    const KvPool pool(call_.in[1], op.pool_layers, call_.layer);
    const std::size_t batch = call_.batch->size(), dim = pool.dim, heads = elements(call_.in[0]) / batch / dim, group = heads / pool.heads;
    const Range slice = sliced(call_, pool.heads);
    for (std::size_t b = 0; b < batch; ++b) {
      const Range tokens = visible((*call_.batch)[b].position, op.window);
      for (std::size_t h = slice.first * group; h < slice.end() * group; ++h) attend(pool, b, h, group, heads, tokens);
    }
  }

  // Two roundings of the scale and the result beside the dot product's own.
  void attention_scores() {
    const auto& op = call_.get<ops::AttentionScores>();
    const View& s = call_.out[0];
    for_each_part(op.window, op.pool_layers, s, [&](const KvPool& pool, std::size_t b, std::size_t h, std::size_t group, Range tokens) {
      const float* q = call_.in[0].as<float>() + (b * s.shape[1] + h) * pool.dim;
      const std::vector<double> query(q, q + pool.dim);
      for (std::uint32_t i = 0; i < tokens.count; ++i) {
        const std::vector<double> key = kv(pool, b, 0, h / group, tokens.first + i);
        const double size = magnitude(key, query);
        bound_[(b * s.shape[1] + h) * s.shape[2] + i] = op.scale * (float_dot(key, query) + 3 * kUnit * size) + 1e-38;
      }
    });
  }

  // The difference is rounded once, and so is the reference's result.
  void attention_weights() {
    const View& s = call_.in[0];
    const Range slice = sliced(call_, s.shape[1]);
    for (std::size_t b = 0; b < call_.batch->size(); ++b) {
      const std::uint32_t seen = visible((*call_.batch)[b].position, call_.get<ops::AttentionWeights>().window).count;
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        const std::size_t at = (b * s.shape[1] + h) * s.shape[2];
        const float* x = s.as<float>() + at;
        const double top = *std::max_element(x, x + seen);
        for (std::uint32_t i = 0; i < seen; ++i) {
          bound_[at + i] = std::exp(x[i] - top) * (kExp + std::expm1(kUnit * (top - x[i])) + kUnit) + 1e-37;
        }
      }
    }
  }

  // A rounding for each value, those of the sum by lanes, the division, and the reference's result.
  void attention_values() {
    const auto& op = call_.get<ops::AttentionValues>();
    const View& e = call_.in[0];
    for_each_part(op.window, op.pool_layers, e, [&](const KvPool& pool, std::size_t b, std::size_t h, std::size_t group, Range tokens) {
      const float* weights = e.as<float>() + (b * e.shape[1] + h) * e.shape[2];
      std::vector<double> size(pool.dim);
      double total = 0;
      for (std::uint32_t i = 0; i < tokens.count; ++i) {
        const std::vector<double> value = kv(pool, b, 1, h / group, tokens.first + i);
        for (std::size_t d = 0; d < pool.dim; ++d) size[d] += std::abs(weights[i] * value[d]);
        total += weights[i];
      }
      const double roundings = tokens.count + lane_roundings(tokens.count) + 2;
      for (std::size_t d = 0; d < pool.dim; ++d) {
        bound_[(b * e.shape[1] + h) * pool.dim + d] = gamma(roundings) * size[d] / total + 1e-38;
      }
    });
  }

  void glu() {
    const std::size_t width = columns(call_.in[0]);
    for_each_run(call_, static_cast<std::uint32_t>(width), [&](Range run) {
      for (std::size_t r = 0; r < call_.in[0].shape[0]; ++r) {
        for (std::size_t i = r * width + run.first; i < r * width + run.end(); ++i) bound_[i] = glu_element(i);
      }
    });
  }

  // One rounding in the kernel and one in the reference, of a sum of `terms` products or values.
  void sum(double terms) {
    const std::size_t width = columns(call_.out[0]);
    const Range slice = sliced(call_, static_cast<std::uint32_t>(width));
    for (std::size_t r = 0; r < call_.out[0].shape[0]; ++r) {
      for (std::size_t n = slice.first; n < slice.end(); ++n) bound_[r * width + n] = gamma(terms + 1) * absolute_sum(r, n);
    }
  }

 private:
  static double magnitude(const std::vector<double>& w, const std::vector<double>& x) {
    double sum = 0;
    for (std::size_t i = 0; i < w.size(); ++i) sum += std::abs(w[i] * x[i]);
    return sum;
  }
  static double float_dot(const std::vector<double>& w, const std::vector<double>& x) {
    return gamma(lane_roundings(w.size())) * magnitude(w, x) + static_cast<double>(w.size()) * 0x1p-149;
  }
  // Activations are rounded to binary16: by half a unit in the eleventh bit, of subnormal ones by half of 2^-24.
  static double half_dot(const std::vector<double>& w, const std::vector<double>& x) {
    double rounded = 0;
    for (std::size_t k = 0; k < w.size(); ++k) rounded += std::abs(w[k]) * (std::abs(x[k]) * 0x1p-11 + 0x1p-25);
    return rounded + float_dot(w, x) + gamma(lane_roundings(w.size())) * rounded;
  }
  // Columns that share a scale of the activations, and how often the float sum of a row is rounded in them.
  struct RoundedBlocks {
    std::size_t columns;
    double roundings;
  };
  static RoundedBlocks rounded_blocks(Format weights) {
    return {variant::int8_block(weights), has_k_tiles(weights) || weights.is_codebook() ? 2.0 : 1.0};
  }
  // Half a step of each block's quantisation, its own roundings, then blocks + 2 roundings of what was really summed: with minima the
  // codes' part (w + minimum) and the minima's.
  static double int8_dot(const std::vector<double>& w, const std::vector<double>& minima, const std::vector<double>& x,
                         RoundedBlocks form) {
    double bound = 0, summed = 0;
    for (std::size_t b = 0; b < w.size(); b += form.columns) {
      double amax = 0, weight = 0, parts = 0;
      for (std::size_t i = b; i < b + form.columns; ++i) {
        amax = std::max(amax, std::abs(x[i]));
        weight += std::abs(w[i]);
        parts += std::abs(w[i] + minima[i]) + std::abs(minima[i]);
      }
      const double step = amax / 127;
      bound += weight * step * (0.5 + 127 * 4 * kUnit);
      summed += parts * amax * (1 + 4 * kUnit);
    }
    return bound + gamma(form.roundings * static_cast<double>(w.size() / form.columns) + 3) * summed;
  }
  double inverse_rms_of(std::size_t row, float eps) const {
    const std::vector<double> x = row_of(call_.in[0], row);
    double squares = 0;
    for (const double v : x) squares += v * v;
    return 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  }
  std::vector<double> kv(const KvPool& pool, std::size_t b, std::uint32_t which, std::size_t head, std::uint32_t t) const {
    const std::uint32_t block = call_.in[2].as<std::uint32_t>()[b * call_.in[2].shape[1] + t / pool.block_tokens];
    std::vector<float> values(pool.dim);
    const Bytes offset = pool.offset(block, which, static_cast<std::uint32_t>(head)) + t % pool.block_tokens * pool.row_bytes(which);
    read_kv_row(pool.format, which, pool.data + offset, pool.dim, values.data());
    return {values.begin(), values.end()};
  }
  // Calls f(pool, row, query head, queries of a pool's head, tokens) for what the slice has; `numbers` is [B, H, T].
  template <class F>
  void for_each_part(std::uint32_t window, std::uint32_t layers, const View& numbers, F f) const {
    const KvPool pool(call_.in[1], layers, call_.layer);
    const std::size_t group = numbers.shape[1] / pool.heads;
    const Range slice = sliced(call_, pool.heads);
    for (std::size_t b = 0; b < call_.batch->size(); ++b) {
      const Range tokens = visible((*call_.batch)[b].position, window);
      for (std::size_t h = slice.first * group; h < slice.end() * group; ++h) f(pool, b, h, group, tokens);
    }
  }
  // A score is off by delta at most, so a probability by a factor within e^(2 delta) times the errors of exp, of the sum
  // and of the division; then the weighted sum adds one rounding per token.
  void attend(const KvPool& pool, std::size_t b, std::size_t h, std::size_t group, std::size_t heads, Range tokens) {
    const std::size_t at = (b * heads + h) * pool.dim;
    const float* q = call_.in[0].as<float>() + at;
    const std::vector<double> query(q, q + pool.dim);
    const double scale = call_.get<ops::Attention>().scale;
    std::vector<double> p;
    double delta = 0, top = -1e300, total = 0;
    for (std::uint32_t t = tokens.first; t < tokens.end(); ++t) {
      const std::vector<double> key = kv(pool, b, 0, h / group, t);
      double score = 0;
      for (std::size_t d = 0; d < pool.dim; ++d) score += key[d] * query[d];
      delta = std::max(delta, scale * (float_dot(key, query) + 3 * kUnit * magnitude(key, query)));
      p.push_back(scale * score);
      top = std::max(top, p.back());
    }
    for (double& v : p) total += v = std::exp(v - top);
    const double n = tokens.count;
    // exp(s - max) also rounds the difference, at most kUnit times a spread that is below 2 * |score|: inside 2 more deltas.
    const double factor = std::expm1(4 * delta) + 2 * kExp + gamma(lane_roundings(tokens.count) + n + 3);
    for (std::size_t d = 0; d < pool.dim; ++d) {
      double size = 0;
      for (std::uint32_t t = tokens.first; t < tokens.end(); ++t) {
        size += p[t - tokens.first] / total * std::abs(kv(pool, b, 1, h / group, t)[d]);
      }
      bound_[at + d] = factor * size + 1e-38;
    }
  }
  double glu_element(std::size_t i) const {
    const double g = call_.in[0].as<float>()[i], u = call_.in[1].as<float>()[i];
    switch (call_.get<ops::Glu>().activation) {
      case Activation::silu:
        return std::abs(g / (1 + std::exp(-g)) * u) * (kExp + gamma(4));
      case Activation::relu:
        return std::abs(g * u) * gamma(2);
      case Activation::relu_squared:
        return g * g * std::abs(u) * gamma(3);
      // The exponent 2 t carries 5 roundings of its own size, which exp turns into relative error.
      case Activation::gelu: {
        const double t2 = 1.5957691216 * (std::abs(g) + 0.044715 * std::abs(g * g * g));
        const double value = 0.5 * g * (1 + std::tanh(0.5 * std::copysign(t2, g)));
        return std::abs(value * u) * (kExp + gamma(4) + std::expm1(6 * kUnit * t2)) + 1e-37;
      }
    }
    return 0;
  }
  double absolute_sum(std::size_t r, std::size_t n) const {
    const std::size_t width = columns(call_.out[0]), rows = call_.out[0].shape[0];
    double sum = 0;
    if (call_.is<ops::Add>()) {
      return std::abs(call_.in[0].as<float>()[r * width + n]) + std::abs(call_.in[1].as<float>()[r * width + n]);
    }
    if (call_.is<ops::Reduce>()) {
      for (std::size_t p = 0; p < call_.in[0].shape[0]; ++p) sum += std::abs(call_.in[0].as<float>()[(p * rows + r) * width + n]);
      return sum;
    }
    const std::size_t k = columns(call_.in[1]);
    for (std::size_t j = 0; j < k; ++j) {
      const std::size_t source = call_.in[1].as<std::uint32_t>()[r * k + j];
      sum += std::abs(double{call_.in[2].as<float>()[r * k + j]} * call_.in[0].as<float>()[source * width + n]);
    }
    return sum;
  }

  const KernelCall& call_;
  std::vector<double> want_, bound_;
};

}  // namespace

std::vector<double> values_of(const View& view) {
  // A pool's view shows one block of one layer; its lease holds all of them.
  const std::size_t k = columns(view), rows = (view.memory.size() - view.offset) / row_bytes(view.format, k);
  std::vector<float> values(rows * k);
  for (std::size_t r = 0; r < rows; ++r) dequantise_row(view.format, view.data() + r * row_bytes(view.format, k), &values[r * k], k);
  return {values.begin(), values.end()};
}

std::vector<double> error_bounds(const KernelCall& call) {
  Bounds bounds(call);
  std::visit(Overloaded{
                 [&](const ops::Matmul&) { bounds.matmul(); },
                 [&](const ops::Accumulate&) { bounds.accumulate(); },
                 [&](const ops::AddProduct&) { bounds.add_product(); },
                 [&](const ops::RmsNorm&) { bounds.rms_norm(); },
                 [&](const ops::InverseRms&) { bounds.inverse_rms(); },
                 [&](const ops::ScaleRows&) { bounds.scale_rows(); },
                 [&](const ops::LayerNorm&) { bounds.layer_norm(); },
                 [&](const ops::AddGated&) { bounds.add_gated(); },
                 [&](const ops::Rope&) { bounds.rope(); },
                 [&](const ops::Attention&) { bounds.attention(); },
                 [&](const ops::AttentionScores&) { bounds.attention_scores(); },
                 [&](const ops::AttentionWeights&) { bounds.attention_weights(); },
                 [&](const ops::AttentionValues&) { bounds.attention_values(); },
                 [&](const ops::Glu&) { bounds.glu(); },
                 [&](const ops::Add&) { bounds.sum(1); },
                 [&](const ops::Reduce&) { bounds.sum(call.in[0].shape[0]); },
                 [&](const ops::ExpertSum&) { bounds.sum(columns(call.in[1]) + 1); },
                 [&](const auto&) { bounds.exact(); },
             },
             call.op);
  return bounds.take();
}

}  // namespace vitro::test
