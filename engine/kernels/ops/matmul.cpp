#include <algorithm>
#include <cstring>

#include "engine/kernels/operands.hpp"
#include "engine/kernels/ops/ops.hpp"
#include "engine/kernels/variants.hpp"

namespace vitro::ops {
namespace {

struct Shape {
  std::uint32_t n = 0, k = 0, batch = 0;
};

// Weight rows are dequantised a few at a time and each meets the whole batch before the next ones come.
void matmul_float(const KernelSet& set, const KernelCall& call, Shape shape) {
  constexpr std::uint32_t kRowsAtOnce = 8;
  const View& w = call.in[0];
  const Rows<float> x{call.in[1].as<float>(), shape.batch, shape.k, shape.k};
  float* y = call.out[0].as<float>();
  const Bytes stride = row_bytes(w.format, shape.k);
  for_each_run(call, shape.n, [&](Range run) {
    const std::byte* row = w.data() + run.first * stride;
    if (w.format == Format::f16) {
      return set.dots_f16({reinterpret_cast<const Half*>(row), run.count, shape.k, shape.k}, x, y + run.first, shape.n);
    }
    if (w.format == Format::f32) {
      return set.dots_f32({reinterpret_cast<const float*>(row), run.count, shape.k, shape.k}, x, y + run.first, shape.n);
    }
    float* rows = scratch<float>(Scratch::a, std::size_t{kRowsAtOnce} * shape.k);
    for (std::uint32_t first = run.first; first < run.end(); first += kRowsAtOnce) {
      const std::uint32_t count = std::min(kRowsAtOnce, run.end() - first);
      for (std::uint32_t r = 0; r < count; ++r) dequantise_row(w.format, w.data() + (first + r) * stride, rows + r * shape.k, shape.k);
      set.dots_f32({rows, count, shape.k, shape.k}, x, y + first, shape.n);
    }
  });
}

Int8Rows quantise(const KernelSet& set, const float* x, Shape shape) {
  const std::size_t row_blocks = shape.k / kBlock, blocks = row_blocks * shape.batch;
  auto* scales = scratch<float>(Scratch::b, blocks * (2 + kBlock / sizeof(float)));
  auto* corrections = reinterpret_cast<std::int32_t*>(scales + blocks);
  auto* quants = reinterpret_cast<std::int8_t*>(corrections + blocks);
  for (std::size_t b = 0; b < shape.batch; ++b) {
    set.quantise(x + b * shape.k, row_blocks, shape.batch, quants + b * kBlock, scales + b, corrections + b);
  }
  return {quants, scales, corrections, row_blocks, shape.batch};
}

// Rows in file order, made into a group of Layout::tiled: 4-byte units of each row go to that row's lane.
void interleave(const std::byte* const (&rows)[kTileRows], std::size_t block_bytes, std::size_t blocks, std::byte* tile) {
  const std::size_t units = (block_bytes - 2) / 4;
  for (std::size_t b = 0; b < blocks; ++b, tile += kTileRows * block_bytes) {
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const std::byte* block = rows[r] + b * block_bytes;
      std::memcpy(tile + 2 * r, block, 2);
      for (std::size_t j = 0; j < units; ++j) std::memcpy(tile + 2 * kTileRows + (j * kTileRows + r) * 4, block + 2 + 4 * j, 4);
    }
  }
}

class Int8Matmul {
 public:
  Int8Matmul(const KernelSet& set, const KernelCall& call, Shape shape)
      : w_(call.in[0]),
        shape_(shape),
        y_(call.out[0].as<float>()),
        x_(quantise(set, call.in[1].as<float>(), shape)),
        multiply_(w_.format == Format::q4_0 ? set.tiles_q4_0 : set.tiles_q8_0),
        stride_(row_bytes(w_.format, shape.k)) {}

  // Whole groups go straight to the output; cut ones at either end by way of a group of their own.
  void tiled(Range run) {
    for (std::uint32_t first = run.first; first < run.end();) {
      const std::uint32_t group = first / kTileRows * kTileRows;
      const std::uint32_t whole = group == first ? (run.end() - first) / kTileRows : 0;
      if (whole > 0) {
        multiply_(w_.data() + group * stride_, whole, x_, y_ + first, shape_.n);
        first += whole * kTileRows;
      } else {
        const std::uint32_t count = std::min(group + kTileRows, run.end()) - first;
        multiply_(w_.data() + group * stride_, 1, x_, partial(), kTileRows);
        for (std::uint32_t i = 0; i < count; ++i) store(first + i, first + i - group);
        first += count;
      }
    }
  }

  void add_row(std::uint32_t row) {
    waiting_[waiting_count_++] = row;
    if (waiting_count_ == kTileRows) flush_rows();
  }

  void flush_rows() {
    if (waiting_count_ == 0) return;
    const std::byte* rows[kTileRows];
    for (std::uint32_t r = 0; r < kTileRows; ++r) rows[r] = w_.data() + waiting_[std::min(r, waiting_count_ - 1)] * stride_;
    auto* tile = scratch<std::byte>(Scratch::d, kTileRows * stride_);
    interleave(rows, block_bytes(w_.format), shape_.k / kBlock, tile);
    multiply_(tile, 1, x_, partial(), kTileRows);
    for (std::uint32_t r = 0; r < waiting_count_; ++r) store(waiting_[r], r);
    waiting_count_ = 0;
  }

 private:
  float* partial() { return scratch<float>(Scratch::c, std::size_t{shape_.batch} * kTileRows); }
  void store(std::uint32_t row, std::uint32_t lane) {
    const float* from = partial() + lane;
    for (std::size_t b = 0; b < shape_.batch; ++b) y_[b * shape_.n + row] = from[b * kTileRows];
  }

  const View& w_;
  Shape shape_;
  float* y_;
  Int8Rows x_;
  decltype(KernelSet::tiles_q4_0) multiply_;
  Bytes stride_;
  std::uint32_t waiting_[kTileRows] = {}, waiting_count_ = 0;
};

void matmul_int8(const KernelSet& set, const KernelCall& call, Shape shape) {
  Int8Matmul work(set, call, shape);
  for_each_run(call, shape.n, [&](Range run) {
    if (call.in[0].layout == Layout::tiled) return work.tiled(run);
    for (std::uint32_t row = run.first; row < run.end(); ++row) work.add_row(row);
  });
  work.flush_rows();
}

}  // namespace

void matmul(const KernelSet& set, const KernelCall& call) {
  const Shape shape{call.in[0].shape[0], call.in[0].shape[1], call.in[1].shape[0]};
  call.variant == variant::kInt8 ? matmul_int8(set, call, shape) : matmul_float(set, call, shape);
  if (call.in.size() < 3) return;
  const float* bias = call.in[2].as<float>();
  for_each_run(call, shape.n, [&](Range run) {
    for (std::size_t b = 0; b < shape.batch; ++b) {
      float* y = call.out[0].as<float>() + b * shape.n;
      for (std::uint32_t n = run.first; n < run.end(); ++n) y[n] += bias[n];
    }
  });
}

}  // namespace vitro::ops
