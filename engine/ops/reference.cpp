#include "engine/ops/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/quant/tiles.hpp"

namespace vitro::ops {
namespace {

Vector doubles(const std::vector<float>& values) {
  return Eigen::Map<const Eigen::VectorXf>(values.data(), static_cast<Eigen::Index>(values.size())).cast<double>();
}

}  // namespace

Vector Reference::read_at(const View& v, Bytes at, std::size_t n) {
  std::vector<float> values(n);
  touch(v, row_bytes(v.format, n));
  dequantise_row(v.format, v.data() + at, values.data(), n);
  return doubles(values);
}

Vector Reference::read_weights(std::size_t row, Bytes at) {
  const View& w = in(0);
  const View* scales = scales_of(call_);
  if (scales == nullptr) return read_at(w, at, columns(w));
  std::vector<float> values(columns(w));
  touch(w, row_bytes(w.format, values.size()));
  touch(*scales, scale_row_bytes(w));
  dequantise_nibbles(w.data() + at, scales->data() + row * scale_row_bytes(w), values.data(), values.size());
  return doubles(values);
}

Vector Reference::tiled_row(const View& w, std::size_t row) {
  const std::size_t k = columns(w), bytes = row_bytes(w.format, k), packed = row_bytes(w.format, k, w.layout);
  const std::size_t rows = group_rows(w.layout), group = row / rows;
  if (group != unpacked_group_) {
    unpacked_.resize(rows * bytes);
    unpack_tile(w.format, k, w.data() + group * rows * packed, unpacked_.data(), w.layout);
    unpacked_group_ = group;
  }
  touch(w, packed);
  std::vector<float> values(k);
  dequantise_row(w.format, &unpacked_[row % rows * bytes], values.data(), k);
  return doubles(values);
}

std::uint32_t Reference::index(const View& v, std::size_t i, std::size_t bound) {
  touch(v, 4);
  const std::uint32_t value = v.as<std::uint32_t>()[i];
  if (value >= bound) throw RunError(std::string(to_string(call_.op)) + ": index " + std::to_string(value) + " is outside");
  return value;
}

void Reference::write(const View& v, std::size_t first, const Vector& values) {
  const Eigen::VectorXf rounded = values.cast<float>();
  const auto n = static_cast<std::size_t>(values.size());
  touch_written(v, row_bytes(v.format, n));
  quantise_row(v.format, rounded.data(), v.data() + row_bytes(v.format, first), n);
}

Vector Reference::softmax(const Vector& x) {
  tally_.elementwise += work::kSoftmax * static_cast<std::uint64_t>(x.size());
  const Vector e = (x.array() - x.maxCoeff()).exp();
  return e / e.sum();
}

double activated(Activation act, double g) {
  switch (act) {
    case Activation::silu:
      return g / (1 + std::exp(-g));
    case Activation::relu:
      return std::max(g, 0.0);
    case Activation::relu_squared:
      return std::max(g, 0.0) * std::max(g, 0.0);
    case Activation::gelu:
      return 0.5 * g * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g)));
  }
  return 0;
}

std::vector<std::uint32_t> by_descending(const Vector& x) {
  std::vector<std::uint32_t> ids(static_cast<std::size_t>(x.size()));
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(), [&](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
  return ids;
}

}  // namespace vitro::ops
