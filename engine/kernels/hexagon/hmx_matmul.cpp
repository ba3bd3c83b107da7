#include "engine/kernels/hexagon/hmx_matmul.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/kernels/common/file_rows.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro::hexagon {
namespace {

// Up to kTile weight rows at a time, values of fp16: the columns of a tile.
class Columns {
 public:
  Columns(const KernelSet& set, const KernelCall& call)
      : set_(set),
        call_(call),
        scales_(scales_of(call)),
        k_(columns(call.in[0])),
        x_(elements(call.in[1])),
        rows_(kTile * k_),
        halves_(k_) {
    const float* x = call.in[1].as<float>();
    for (std::size_t i = 0; i < x_.size(); i += k_) round_to_halves(x + i, &x_[i]);
    sums_.resize(call.in[1].shape[0] * kTile);
  }

  void add(std::uint32_t row, const std::byte* data) {
    float* values = &rows_[count_ * k_];
    if (scales_ != nullptr) {
      set_.dequantise_nibbles(data, scales_->data() + row * scale_row_bytes(call_.in[0]), values, k_);
      round_to_halves(values, values);
    } else if (call_.in[0].format == Format::f16) {
      std::memcpy(halves_.data(), data, k_ * sizeof(Half));  // of any alignment
      set_.to_f32(halves_.data(), k_, values);
    } else {
      set_.dequantise(call_.in[0].format, data, values, k_);
      round_to_halves(values, values);
    }
    added(row);
  }
  void add(std::uint32_t row, const float* values) {
    round_to_halves(values, &rows_[count_ * k_]);
    added(row);
  }

  void multiply() {
    if (count_ == 0) return;
    const std::size_t batch = call_.in[1].shape[0], n = call_.in[0].shape[0];
    std::ranges::fill(sums_, 0.0f);
    for (std::size_t first = 0; first < k_; first += kDepth) {
      const std::size_t depth = std::min(kDepth, k_ - first);
      float weights[kDepth][kTile] = {};
      for (std::size_t c = 0; c < count_; ++c) {
        for (std::size_t k = 0; k < depth; ++k) weights[k][c] = rows_[c * k_ + first + k];
      }
      for (std::size_t b = 0; b < batch; ++b) {
        float acc[kTile];
        std::copy_n(&sums_[b * kTile], kTile, acc);
        for (std::size_t k = 0; k < depth; ++k) {
          const float x = x_[b * k_ + first + k];
          for (std::size_t c = 0; c < kTile; ++c) acc[c] += x * weights[k][c];  // the product is exact, fused or not
        }
        std::copy_n(acc, kTile, &sums_[b * kTile]);
      }
    }
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t c = 0; c < count_; ++c) {
        call_.out[0].as<float>()[b * n + ids_[c]] = half_to_float(float_to_half(sums_[b * kTile + c]));
      }
    }
    count_ = 0;
  }

 private:
  static constexpr std::size_t kDepth = 64;  // of weights that stay in the first-level cache

  void round_to_halves(const float* in, float* out) {
    set_.to_f16(in, k_, halves_.data());
    set_.to_f32(halves_.data(), k_, out);
  }
  void added(std::uint32_t row) {
    ids_[count_++] = row;
    if (count_ == kTile) multiply();
  }

  const KernelSet& set_;
  const KernelCall& call_;
  const View* scales_;  // that stand apart from the rows
  std::size_t k_;
  std::vector<float> x_, rows_, sums_;
  std::vector<Half> halves_;
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

void hmx_matmul(const KernelSet& set, const KernelCall& call) {
  Columns all(set, call);
  const View& w = call.in[0];
  if (w.layout != Layout::strips) {
    for_each_file_row(call, [&](std::uint32_t row, const std::byte* data) { all.add(row, data); });
    return all.multiply();
  }
  const std::size_t k = columns(w);
  const Bytes strip = kStripRows * row_bytes(w.format, k, w.layout);
  std::vector<float> rows(kStripRows * k);
  for_each_run(call, w.shape[0], [&](Range run) {
    for (std::uint32_t row = run.first; row < run.end();) {
      const std::uint32_t first = row % kStripRows, count = std::min<std::uint32_t>(kStripRows - first, run.end() - row);
      dequantise_strip_rows(w.data() + row / kStripRows * strip, k, first, count, rows.data());
      for (std::uint32_t i = 0; i < count; ++i, ++row) all.add(row, &rows[i * k]);
    }
  });
  all.multiply();
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
