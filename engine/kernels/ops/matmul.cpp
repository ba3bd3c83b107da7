#include <algorithm>
#include <cstring>

#include "engine/kernels/hexagon/hmx_matmul.hpp"
#include "engine/kernels/ops/weight_rows.hpp"
#include "engine/kernels/variants.hpp"

namespace vitro::ops {
namespace {

struct Shape {
  std::uint32_t n = 0, k = 0, batch = 0;
};

// Each group of weight rows meets the whole batch before the next ones come.
void matmul_float(const KernelSet& set, const KernelCall& call, Shape shape) {
  const View& w = call.in[0];
  const Rows<float> x{call.in[1].as<float>(), shape.batch, shape.k, shape.k};
  float* y = call.out[0].as<float>();
  const bool as_stored = w.format == Format::f16 || w.format == Format::f32;
  if (as_stored && call.rows == nullptr) {
    const Range run = sliced(call, shape.n);
    const std::size_t first = std::size_t{run.first} * shape.k;
    if (w.format == Format::f16) return set.dots_f16({w.as<Half>() + first, run.count, shape.k, shape.k}, x, y + run.first, shape.n);
    return set.dots_f32({w.as<float>() + first, run.count, shape.k, shape.k}, x, y + run.first, shape.n);
  }
  for_each_row_group(
      call, as_stored, [](std::uint32_t) { return true; },
      [&](const RowGroup& group) {
        if (w.format == Format::f16) return set.placed_dots_f16(group.rows<Half>(shape.k), group.ids, x, y, shape.n);
        set.placed_dots_f32(group.rows<float>(shape.k), group.ids, x, y, shape.n);
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

using Units = std::uint32_t __attribute__((vector_size(16)));

// 4 x 4 units of 4 bytes change places: row r of `from` becomes unit r of the four columns at `to`.
void transpose(const std::byte* const (&from)[4], std::byte* to, std::size_t to_stride) {
  Units row[4];
  for (int r = 0; r < 4; ++r) std::memcpy(&row[r], from[r], sizeof row[r]);
  const Units low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5), low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Units high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7), high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  const Units column[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                           __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (std::size_t j = 0; j < 4; ++j) std::memcpy(to + j * to_stride, &column[j], sizeof column[j]);
}

// A row of blocks in file order: its quants and its scales, and how far each is from block to block.
struct BlockRow {
  const std::byte *quants = nullptr, *scales = nullptr;
};
struct BlockForm {
  std::size_t quant_bytes, quant_step, scale_step;
};

// Such rows, made into a group of Layout::tiled: 4-byte units of each row go to that row's lane. The same place in the rows
// of the group after this one is requested from memory meanwhile.
void interleave(const BlockRow* rows, const BlockRow* next, BlockForm form, std::size_t blocks, std::byte* tile) {
  constexpr std::size_t kUnitBytes = 4, kLine = kTileRows * kUnitBytes;
  const bool apart = form.quant_step == form.quant_bytes;
  const std::size_t blocks_per_line = std::max<std::size_t>(1, 64 / form.quant_step), scales_per_line = 64 / form.scale_step;
  for (std::size_t b = 0; b < blocks; ++b, tile += kTileRows * (2 + form.quant_bytes)) {
    if (b % blocks_per_line == 0) {
      for (std::size_t r = 0; r < kTileRows; ++r) __builtin_prefetch(next[r].quants + b * form.quant_step, 0, 2);
    }
    if (apart && b % scales_per_line == 0) {
      for (std::size_t r = 0; r < kTileRows; ++r) __builtin_prefetch(next[r].scales + b * form.scale_step, 0, 2);
    }
    for (std::size_t r = 0; r < kTileRows; ++r) std::memcpy(tile + 2 * r, rows[r].scales + b * form.scale_step, 2);
    for (std::size_t at = 0; at < form.quant_bytes; at += sizeof(Units)) {
      std::byte* lines = tile + 2 * kTileRows + at / kUnitBytes * kLine;
      const std::size_t from = b * form.quant_step + at;
      for (std::size_t r = 0; r < kTileRows; r += 4) {
        transpose({rows[r].quants + from, rows[r + 1].quants + from, rows[r + 2].quants + from, rows[r + 3].quants + from},
                  lines + r * kUnitBytes, kLine);
      }
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
        multiply_(w_.format == Format::q8_0 ? set.tiles_q8_0 : set.tiles_q4_0),
        scales_(scales_of(call)),
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

  // A row in file order that begins `at` bytes behind the operand's offset. Two groups are held, one to come and one to
  // request meanwhile.
  void add_row(std::uint32_t row, Bytes at) {
    ids_[waiting_] = row;
    const std::byte* begin = w_.data() + at;
    data_[waiting_++] = scales_ != nullptr ? BlockRow{begin, scales_->data() + row * scale_row_bytes(w_)} : BlockRow{begin + 2, begin};
    if (waiting_ == 2 * kTileRows) multiply_rows(kTileRows);
  }

  void flush_rows() {
    while (waiting_ > 0) multiply_rows(std::min(waiting_, kTileRows));
  }

 private:
  // The first `count` of the waiting rows.
  void multiply_rows(std::uint32_t count) {
    for (std::uint32_t r = waiting_; r < 2 * kTileRows; ++r) data_[r] = data_[0];  // lanes that nobody reads
    const std::size_t block = block_bytes(w_.format);
    const BlockForm form = scales_ != nullptr ? BlockForm{block, block, 2} : BlockForm{block - 2, block, block};
    auto* tile = scratch<std::byte>(Scratch::d, kTileRows * (shape_.k / kBlock) * (2 + form.quant_bytes));
    interleave(data_, data_ + kTileRows, form, shape_.k / kBlock, tile);
    multiply_(tile, 1, x_, partial(), kTileRows);
    for (std::uint32_t r = 0; r < count; ++r) store(ids_[r], r);
    waiting_ -= count;
    std::copy(ids_ + count, ids_ + count + waiting_, ids_);
    std::copy(data_ + count, data_ + count + waiting_, data_);
  }
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
  const View* scales_;
  Bytes stride_;
  std::uint32_t waiting_ = 0, ids_[2 * kTileRows] = {};
  BlockRow data_[2 * kTileRows] = {};
};

void matmul_int8(const KernelSet& set, const KernelCall& call, Shape shape) {
  Int8Matmul work(set, call, shape);
  if (call.in[0].layout == Layout::tiled) return for_each_run(call, shape.n, [&](Range run) { work.tiled(run); });
  for_each_row(call, [&](std::uint32_t row, Bytes at) { work.add_row(row, at); });
  work.flush_rows();
}

}  // namespace

void matmul(const KernelSet& set, const KernelCall& call) {
  const Shape shape{call.in[0].shape[0], call.in[0].shape[1], call.in[1].shape[0]};
  if (call.variant == variant::kHmx) {
    hexagon::hmx_matmul(call);
  } else {
    call.variant == variant::kInt8 ? matmul_int8(set, call, shape) : matmul_float(set, call, shape);
  }
  if (bias_of(call) == nullptr) return;
  const float* bias = bias_of(call)->as<float>();
  for_each_run(call, shape.n, [&](Range run) {
    for (std::size_t b = 0; b < shape.batch; ++b) {
      float* y = call.out[0].as<float>() + b * shape.n;
      for (std::uint32_t n = run.first; n < run.end(); ++n) y[n] += bias[n];
    }
  });
}

}  // namespace vitro::ops
