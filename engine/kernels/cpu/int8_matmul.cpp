#include "engine/kernels/cpu/int8_matmul.hpp"

#include <algorithm>

#include "engine/kernels/cpu/interleave.hpp"
#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/codebook_blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/k_tiles.hpp"

namespace vitro::cpu {
namespace {

// Above so many activation rows, codes that are unpacked once for all rows beat tables for each (docs/design/lut-kernels.md).
constexpr std::uint32_t kMostLookUpRows = 4;

// Blocks of 256 columns with scales of their own for 16 or 32 of them.
bool by_k_rows(Format weights) { return has_k_tiles(weights) || weights.is_codebook(); }
bool shares_scales_by_16(Format weights) { return weights == Format::q6_k || (weights.is_codebook() && codebook::run_of(weights) == 16); }

// As look-ups and K-quants read them, or as the set's other dot products do. A zero of q8_0 and of values is none.
Int8Rows quantise(const KernelSet& set, const float* x, MatmulShape shape, Format weights, bool look_ups) {
  const std::size_t block = variant::int8_block(weights);
  const std::size_t row_blocks = shape.k / block, blocks = row_blocks * shape.batch;
  auto* scales = scratch<float>(Scratch::quantised, blocks * (4 + block / sizeof(float)));
  auto* corrections = reinterpret_cast<std::int32_t*>(scales + 2 * blocks);
  auto* quants = reinterpret_cast<std::int8_t*>(corrections + 2 * blocks);
  for (std::size_t b = 0; b < shape.batch; ++b) {
    const float* row = x + b * shape.k;
    set.quantise_blocks(row, block, row_blocks, shape.batch, quants + b * block, scales + b, corrections + b);
  }
  if (set.arrange != nullptr && !look_ups && !by_k_rows(weights)) {
    CodeForm form = code_form(weights == Format::q4_nibbles ? Format::q4_0 : weights).value_or(CodeForm{});
    form.group = static_cast<std::uint32_t>(block);
    set.arrange(form, quants, scales, corrections, row_blocks, shape.batch);
  }
  return {quants, scales, corrections, row_blocks, shape.batch};
}

// What quantised rows depend on, beside the numbered activations themselves.
struct Kept {
  std::uint32_t activations;
  const KernelSet* set;
  Format weights;
  bool look_ups;
  friend bool operator==(const Kept&, const Kept&) = default;
};
// quantise() of a call, or what this thread made last, if that was the same.
Int8Rows quantised(const KernelSet& set, const KernelCall& call, MatmulShape shape, bool look_ups) {
  thread_local Kept kept{};
  thread_local Int8Rows rows{};
  const Kept wanted{call.activations, &set, call.in[0].format, look_ups};
  if (wanted.activations != 0 && wanted == kept) return rows;
  kept = {};
  rows = quantise(set, call.in[1].as<float>(), shape, wanted.weights, look_ups);
  kept = wanted;
  return rows;
}

// What the loops over K-quants and codebooks need of the sums of activations.
KRows k_rows(const Int8Rows& x, Format weights) {
  const std::size_t blocks = x.blocks * x.rows;
  if (has_minima(weights)) {
    auto* offsets = scratch<float>(Scratch::e, blocks);
    for (std::size_t b = 0; b < blocks; ++b) offsets[b] = x.scales[b] * (static_cast<float>(x.corrections[b]) * 0.125f);
    return {x, offsets, nullptr};
  }
  if (!shares_scales_by_16(weights)) return {x, nullptr, nullptr};
  auto* starts = scratch<std::int32_t>(Scratch::e, 2 * blocks);
  for (std::size_t b = 0; b < 2 * blocks; ++b) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < kBlock / 2; ++i) sum += x.quants[kBlock / 2 * b + i];
    starts[b] = -32 * sum;
  }
  return {x, nullptr, starts};
}

class Int8Matmul {
 public:
  Int8Matmul(const KernelSet& set, const KernelCall& call, MatmulShape shape)
      : set_(set),
        w_(call.in[0]),
        shape_(shape),
        y_(call.out[0].as<float>()),
        rounded_(call.variant == variant::kInt8Tables),
        look_ups_(rounded_ || (w_.layout == Layout::lut && shape.batch <= kMostLookUpRows)),
        floats_{call.in[1].as<float>(), shape.batch, shape.k, shape.k},
        x_(quantised(set, call, shape, look_ups_)),
        scales_(scales_of(call)),
        values_(value_table(w_.format)),
        stride_(row_bytes(w_.format, shape.k, w_.layout)) {
    const bool q4_0_tile = w_.format == Format::q4_0 && w_.layout != Layout::lut;
    if (const auto form = code_form(w_.format); form && !q4_0_tile) form_ = *form;
    if (by_k_rows(w_.format)) k_ = k_rows(x_, w_.format);
    if (look_ups_) make_tables();
  }

  // Whole groups go straight to the output; cut ones at either end by way of a group of their own.
  void tiled(Range run) {
    for (std::uint32_t first = run.first; first < run.end();) {
      const std::uint32_t group = first / kTileRows * kTileRows;
      const std::uint32_t whole = group == first ? (run.end() - first) / kTileRows : 0;
      if (whole > 0) {
        multiply(w_.data() + group * stride_, whole, y_ + first, shape_.n);
        first += whole * kTileRows;
      } else {
        const std::uint32_t count = std::min(group + kTileRows, run.end()) - first;
        multiply(w_.data() + group * stride_, 1, partial(), kTileRows);
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
  bool coded() const { return form_.bits != 0; }

  void make_tables() {
    const std::size_t bytes = std::size_t{shape_.batch} * shape_.k * 8, sums = x_.blocks * x_.rows;
    auto* tables = scratch<std::byte>(Scratch::e, bytes + sums * sizeof(std::int32_t));
    auto* minima = reinterpret_cast<std::int32_t*>(tables + bytes);
    (rounded_ ? set_.rounded_tables : set_.tables)(form_, x_, tables, minima);
    tables_ = {x_, tables, minima};
  }

  // `groups` groups of 16 rows in the operand's layout.
  void multiply(const std::byte* tiles, std::size_t groups, float* y, std::size_t y_stride) {
    if (!coded()) return multiply_units(tiles, groups, y, y_stride);
    if (rounded_) return set_.rounded_look_ups(form_, tiles, groups, tables_, y, y_stride);
    if (form_.outliers) return multiply_with_outliers(tiles, groups, y, y_stride);
    if (w_.layout == Layout::tiled) return set_.code_dots(form_, tiles, groups, x_, y, y_stride);
    if (look_ups_) return set_.look_ups(form_, tiles, groups, tables_, y, y_stride);
    for (std::size_t g = 0; g < groups; ++g) multiply_unpacked(tiles + g * kTileRows * stride_, y + g * kTileRows, y_stride);
  }
  void multiply_units(const std::byte* tiles, std::size_t groups, float* y, std::size_t y_stride) {
    if (w_.format == Format::q4_k) return set_.tiles_q4_k(tiles, groups, k_, y, y_stride);
    if (w_.format == Format::q5_k) return set_.tiles_q5_k(tiles, groups, k_, y, y_stride);
    if (w_.format == Format::q6_k) return set_.tiles_q6_k(tiles, groups, k_, y, y_stride);
    if (w_.format == Format::iq4_xs) return set_.tiles_iq4_xs(tiles, groups, k_, y, y_stride);
    if (w_.format == Format::q8_0) return set_.tiles_q8_0(tiles, groups, x_, y, y_stride);
    if (values_) return set_.tiles_values(*values_, tiles, groups, x_, y, y_stride);
    set_.tiles_q4_0(tiles, groups, x_, y, y_stride);
  }
  void multiply_with_outliers(const std::byte* tiles, std::size_t groups, float* y, std::size_t y_stride) {
    set_.code_dots(form_, tiles, groups, x_, y, y_stride);
    set_.add_outliers(tiles, groups, floats_, y, y_stride);
  }
  // A group in Layout::lut by dot products.
  void multiply_unpacked(const std::byte* tile, float* y, std::size_t y_stride) {
    CodeForm unpacked = form_;
    unpacked.stored_bits = 8;
    auto* codes = scratch<std::byte>(Scratch::f, unpacked.tile_bytes(x_.blocks));
    set_.unpack_planes(form_, tile, x_.blocks, codes);
    set_.code_dots(unpacked, codes, 1, x_, y, y_stride);
  }

  // The first `count` of the waiting rows.
  void multiply_rows(std::uint32_t count) {
    for (std::uint32_t r = waiting_; r < 2 * kTileRows; ++r) data_[r] = data_[0];  // lanes that nobody reads
    if (w_.format.is_codebook()) {
      multiply_codebook();
      return take(count);
    }
    const std::size_t block = block_bytes(w_.format);
    const BlockSteps steps = scales_ != nullptr ? BlockSteps{block, block, 2} : BlockSteps{block - 2, block, block};
    if (shape_.batch == 1 && multiply_group(steps)) return take(count);
    const std::size_t blocks = shape_.k / block_elements(w_.format);
    const std::size_t row = scales_ != nullptr ? blocks * (block + 2) : row_bytes(w_.format, shape_.k);
    auto* tile = scratch<std::byte>(Scratch::d, kTileRows * row);
    if (has_k_tiles(w_.format)) {
      interleave_k(w_.format, data_, data_ + kTileRows, blocks, tile);
      multiply_units(tile, 1, partial(), kTileRows);
    } else if (form_.outliers) {
      interleave_outliers(data_, data_ + kTileRows, shape_.k, tile);
      multiply_with_outliers(tile, 1, partial(), kTileRows);
    } else if (form_.bits == 8) {
      interleave_bytes(data_, data_ + kTileRows, form_, x_.blocks, tile);
      set_.code_dots(form_, tile, 1, x_, partial(), kTileRows);
    } else if (coded()) {
      interleave_planes(data_, data_ + kTileRows, form_, x_.blocks, tile);
      rounded_ ? multiply(tile, 1, partial(), kTileRows) : multiply_unpacked(tile, partial(), kTileRows);
    } else {
      interleave(data_, data_ + kTileRows, steps, x_.blocks, tile);
      multiply_units(tile, 1, partial(), kTileRows);
    }
    take(count);
  }
  void multiply_codebook() {
    const std::byte* rows[2 * kTileRows];
    for (std::uint32_t r = 0; r < 2 * kTileRows; ++r) rows[r] = data_[r].scales;
    set_.codebook_rows(w_.format, rows, rows + kTileRows, k_, partial(), kTileRows);
  }
  // One activation row needs no group in memory. False: the set has no such loop for the format.
  bool multiply_group(BlockSteps steps) {
    if (set_.group_q4_0 == nullptr) return false;
    const std::byte *quants[2 * kTileRows], *scales[2 * kTileRows];
    for (std::uint32_t r = 0; r < 2 * kTileRows; ++r) {
      quants[r] = data_[r].quants;
      scales[r] = data_[r].scales;
    }
    const BlockGroup rows{quants, scales, quants + kTileRows, scales + kTileRows, steps.quant_step, steps.scale_step};
    if (w_.format == Format::q4_k) return set_.group_q4_k(rows, k_, partial()), true;
    if (w_.format == Format::q8_0) return set_.group_q8_0(rows, x_, partial()), true;
    if (w_.format == Format::q4_0 || w_.format == Format::q4_nibbles) return set_.group_q4_0(rows, x_, partial()), true;
    return false;
  }
  void take(std::uint32_t count) {
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

  const KernelSet& set_;
  const View& w_;
  MatmulShape shape_;
  float* y_;
  bool rounded_;  // variant::kInt8Tables
  bool look_ups_;
  Rows<float> floats_;  // the activations as they are, for outliers
  Int8Rows x_;
  TableRows tables_;
  KRows k_;
  CodeForm form_;  // of weights that go by it; else 0 bits
  const View* scales_;
  std::optional<ValueTable> values_;
  Bytes stride_;
  std::uint32_t waiting_ = 0, ids_[2 * kTileRows] = {};
  BlockRow data_[2 * kTileRows] = {};
};

}  // namespace

void matmul_int8(const KernelSet& set, const KernelCall& call, MatmulShape shape) {
  Int8Matmul work(set, call, shape);
  if (call.in[0].layout != Layout::rows) return for_each_run(call, shape.n, [&](Range run) { work.tiled(run); });
  for_each_row(call, [&](std::uint32_t row, Bytes at) { work.add_row(row, at); });
  work.flush_rows();
}

}  // namespace vitro::cpu
