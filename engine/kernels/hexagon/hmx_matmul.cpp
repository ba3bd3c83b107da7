#include "engine/kernels/hexagon/hmx_matmul.hpp"

#include <cmath>
#include <vector>

#include "engine/kernels/common/file_rows.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro::hexagon {
namespace {

void round_to_halves(float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = half_to_float(float_to_half(x[i]));
}

// Weight rows side by side, as the columns of a tile: [k][kTile], values of fp16.
class Columns {
 public:
  explicit Columns(const KernelCall& call)
      : call_(call), k_(columns(call.in[0])), x_(elements(call.in[1])), weights_(std::size_t{k_} * kTile), row_(k_) {
    const float* x = call.in[1].as<float>();
    x_.assign(x, x + elements(call.in[1]));
    round_to_halves(x_.data(), x_.size());
  }

  void add(std::uint32_t row, const std::byte* data) {
    dequantise_row(call_.in[0].format, data, row_.data(), k_);
    round_to_halves(row_.data(), k_);
    for (std::size_t k = 0; k < k_; ++k) weights_[k * kTile + count_] = row_[k];
    ids_[count_++] = row;
    if (count_ == kTile) multiply();
  }

  void multiply() {
    const std::size_t batch = call_.in[1].shape[0], n = call_.in[0].shape[0];
    for (std::size_t b = 0; b < batch && count_ > 0; ++b) {
      float acc[kTile] = {};
      for (std::size_t k = 0; k < k_; ++k) {
        const float x = x_[b * k_ + k];
        const float* w = &weights_[k * kTile];
        for (std::size_t c = 0; c < kTile; ++c) acc[c] += x * w[c];  // the product is exact, fused or not
      }
      for (std::size_t c = 0; c < count_; ++c) call_.out[0].as<float>()[b * n + ids_[c]] = half_to_float(float_to_half(acc[c]));
    }
    count_ = 0;
  }

 private:
  const KernelCall& call_;
  std::size_t k_;
  std::vector<float> x_, weights_, row_;
  std::uint32_t count_ = 0, ids_[kTile] = {};
};

// f(row, bytes of the file's row), for the rows that the call names.
template <class F>
void for_each_file_row(const KernelCall& call, F f) {
  const View& w = call.in[0];
  if (w.layout == Layout::rows) return for_each_row(call, [&](std::uint32_t row, Bytes at) { f(row, w.data() + at); });
  FileRows rows(w);
  for_each_run(call, w.shape[0], [&](Range run) {
    for (std::uint32_t row = run.first; row < run.end(); ++row) f(row, rows[row]);
  });
}

// Activations with one scale, and that scale: the largest becomes `top`.
template <class Quant>
float quantise(const float* x, std::size_t n, float top, Quant* quants) {
  float most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  const float inverse = most < 0x1p-100f ? 0 : top / most;
  for (std::size_t i = 0; i < n; ++i) quants[i] = static_cast<Quant>(std::nearbyint(x[i] * inverse));
  return most < 0x1p-100f ? 0 : most / top;
}

}  // namespace

void hmx_matmul(const KernelCall& call) {
  Columns columns(call);
  for_each_file_row(call, [&](std::uint32_t row, const std::byte* data) { columns.add(row, data); });
  columns.multiply();
}

void int16_tables_matmul(const KernelCall& call) {
  const Format format = call.in[0].format;
  const std::size_t k = columns(call.in[0]), n = call.in[0].shape[0], batch = call.in[1].shape[0];
  const std::size_t group = block_elements(format), bytes = block_bytes(format), blocks = k / group;
  std::vector<std::int16_t> quants(batch * k);
  std::vector<float> scales(batch * blocks);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = quantise(call.in[1].as<float>() + i * group, group, variant::kMostWide, &quants[i * group]);
  }
  std::vector<std::uint8_t> codes(k);
  for_each_file_row(call, [&](std::uint32_t row, const std::byte* data) {
    unpack_codes(format, data, k, codes.data());
    for (std::size_t b = 0; b < batch; ++b) {
      float acc = 0;
      for (std::size_t j = 0; j < blocks; ++j) {
        const BlockScale block = block_scale(format, data + j * bytes);
        std::int32_t dot = 0;
        for (std::size_t i = j * group; i < (j + 1) * group; ++i) dot += quants[b * k + i] * (block.step * codes[i] - block.zero);
        acc = std::fma(static_cast<float>(dot), block.scale * scales[b * blocks + j], acc);
      }
      call.out[0].as<float>()[b * n + row] = acc;
    }
  });
}

void int8_rows_matmul(const KernelCall& call) {
  const Format format = call.in[0].format;
  const std::size_t k = columns(call.in[0]), n = call.in[0].shape[0], batch = call.in[1].shape[0];
  const std::size_t group = block_elements(format), bytes = block_bytes(format);
  std::vector<std::int8_t> quants(batch * k);
  std::vector<float> scales(batch);
  for (std::size_t b = 0; b < batch; ++b) scales[b] = quantise(call.in[1].as<float>() + b * k, k, 127, &quants[b * k]);
  std::vector<std::uint8_t> codes(k);
  for_each_file_row(call, [&](std::uint32_t row, const std::byte* data) {
    unpack_codes(format, data, k, codes.data());
    for (std::size_t b = 0; b < batch; ++b) {
      float acc = 0;
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < k; i += group) {
        const BlockScale block = block_scale(format, data + i / group * bytes);
        for (std::size_t j = i; j < i + group; ++j) sum += quants[b * k + j] * (block.step * codes[j] - block.zero);
        const bool last = i + group == k;
        if (!last && block_scale(format, data + (i / group + 1) * bytes).scale == block.scale) continue;
        acc = std::fma(static_cast<float>(sum), block.scale * scales[b], acc);
        sum = 0;
      }
      call.out[0].as<float>()[b * n + row] = acc;
    }
  });
}

}  // namespace vitro::hexagon
