// KernelSet: the inner loops of one instruction set. Everything above it (slices, batches, views) is written once, in the
// op files; everything below it follows the numeric contracts of variants.hpp, so all sets give equal bits.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/code_form.hpp"
#include "engine/ops/contract.hpp"

namespace vitro {

using Half = std::uint16_t;  // bits of an IEEE binary16

// Rows of activations quantised to int8 in blocks as long as the weights': x is about scale * quant. Block-major, so that the
// rows of a batch stand side by side where a block of weights meets them.
struct Int8Rows {
  const std::int8_t* quants = nullptr;        // [blocks, rows, columns of a block]
  const float* scales = nullptr;              // [blocks, rows]
  const std::int32_t* corrections = nullptr;  // [blocks, rows]: -8 times the sum of a block's quants, what weights + 8 add too much
  std::size_t blocks = 0, rows = 0;
};

// The same rows for K-quants and codebooks: blocks of 32.
struct KRows {
  Int8Rows x;
  const float* offsets = nullptr;        // [blocks, rows], of q4_k and q5_k, for their minima: scale * -(sum of a block's quants)
  const std::int32_t* starts = nullptr;  // [blocks, rows, 2], where 16 weights share a scale: -32 times the sum of half a block's quants
};

// The same rows as tables of sums: of every four activations the 16 sums of a subset, less the least of them (lut/look_up.hpp); or the
// 16 signed sums, rounded to bytes (lut/rounded_look_up.hpp).
struct TableRows {
  Int8Rows x;
  const std::byte* tables = nullptr;     // [rows, columns / 32, 256]; rounded: 128
  const std::int32_t* minima = nullptr;  // [blocks, rows]: the sum of what was taken off in a block; rounded: the block's largest sum
};

// 16 rows of blocks in file order, and the 16 to be read after them, which are requested from memory meanwhile. A row's scales are among
// its quants or apart; of K-quants, `scales` is where the row begins, and all else is ignored.
struct BlockGroup {
  const std::byte *const *quants, *const *scales, *const *next_quants, *const *next_scales;
  std::size_t quant_step = 0, scale_step = 0;  // bytes from block to block
};

// A matrix for dots(): `count` rows of `columns` elements, `stride` elements apart.
template <class T>
struct Rows {
  const T* data = nullptr;
  std::size_t count = 0, columns = 0, stride = 0;
};

// Rows that stand anywhere: row i begins at data[i].
template <class T>
struct PlacedRows {
  const T* const* data = nullptr;
  std::size_t count = 0, columns = 0;
};

// A loop that reads memory and nothing else; the result only keeps it from being optimised away.
struct ReadLoop {
  std::string_view name;
  std::uint64_t (*read)(const std::byte* data, std::size_t bytes) = nullptr;
};

// The same of rows that stand anywhere, `bytes` each.
struct RowReadLoop {
  std::string_view name;
  std::uint64_t (*read)(const std::byte* const* rows, std::size_t count, std::size_t bytes) = nullptr;
};

// Pointers are aligned to their element, no more. Outputs never overlap inputs unless a member says so. All members are thread-safe.
struct KernelSet {
  std::string_view name;

  // y[b * y_stride + r] = dot(w row r, x row b) over 16 lanes: lane l adds the elements k = l (mod 16) in ascending order,
  // one fused multiply-add each, the row padded with zeros to a multiple of 16; lanes are then added 8 apart, 4, 2, 1.
  void (*dots_f32)(Rows<float> w, Rows<float> x, float* y, std::size_t y_stride);
  void (*dots_f16)(Rows<Half> w, Rows<float> x, float* y, std::size_t y_stride);
  void (*dots_halves)(Rows<Half> w, Rows<Half> x, float* y, std::size_t y_stride);

  // As dots_halves, but each of these operations is rounded to float16: what float16 instructions give. y has float16 numbers.
  void (*half_sums)(Rows<Half> w, Rows<Half> x, float* y, std::size_t y_stride);

  // The same as dots_f32 and dots_f16 for rows in places: the products of row r are y[b * y_stride + columns[r]].
  void (*placed_dots_f32)(PlacedRows<float> w, const std::uint32_t* columns, Rows<float> x, float* y, std::size_t y_stride);
  void (*placed_dots_f16)(PlacedRows<Half> w, const std::uint32_t* columns, Rows<float> x, float* y, std::size_t y_stride);

  // acc[h * columns + d] = fma(p[h * p_stride + i], v[i][d], acc[h * columns + d]) for i = 0, 1, ... in order.
  void (*weighted_f32)(Rows<float> v, const float* p, std::size_t p_stride, std::size_t heads, float* acc);
  void (*weighted_f16)(Rows<Half> v, const float* p, std::size_t p_stride, std::size_t heads, float* acc);
  // acc[d] = fma(p[i], w[i][d], acc[d]) for i = 0, 1, ... in order. The next rows are requested from memory meanwhile.
  void (*placed_weighted_f32)(PlacedRows<float> w, const float* p, float* acc);
  void (*placed_weighted_f16)(PlacedRows<Half> w, const float* p, float* acc);
  void (*placed_weighted_q4_0)(PlacedRows<std::byte> w, const float* p, float* acc);
  // q4_nibbles: row i has its scales at scales[i].
  void (*placed_weighted_nibbles)(PlacedRows<std::byte> w, const Half* const* scales, const float* p, float* acc);
  // The same with coefficients in int8, 16 rows at a time. Of each block of 32 columns c_i = p[i] * scale of w[i], amax = max |c_i| (below
  // 2^-100 counts as 0), q_i = round to nearest even of c_i * (127 / amax), and acc = fma(float(sum q_i * quant_i), amax / 127, acc) with
  // the exact int32 sum.
  void (*placed_coefficients_q4_0)(PlacedRows<std::byte> w, const float* p, float* acc);
  void (*placed_coefficients_nibbles)(PlacedRows<std::byte> w, const Half* const* scales, const float* p, float* acc);

  // s[i] = exp(s[i] * scale - max_j(s[j] * scale)); returns the sum of these over 16 lanes, as in dots.
  float (*softmax)(float* s, std::size_t n, float scale);
  // h[i] = act(gate[i]) * up[i]. h may be gate or up.
  void (*activate)(Activation act, const float* gate, const float* up, std::size_t n, float* h);
  // y[i] = (x[i] * scale) * weight[i]. y may be x.
  void (*scale)(const float* x, float scale, const float* weight, std::size_t n, float* y);
  // y[i] = a[i] + b[i], and h[i] = max(gate[i], 0) * up[i], each rounded once: what float16 instructions give, and float32 ones with a
  // rounding behind them. The output may be an input.
  void (*add_halves)(const Half* a, const Half* b, std::size_t n, Half* y);
  void (*relu_halves)(const Half* gate, const Half* up, std::size_t n, Half* h);
  void (*to_f16)(const float* x, std::size_t n, Half* y);  // round to nearest even
  void (*to_f32)(const Half* x, std::size_t n, float* y);
  // dequantise_row() and dequantise_nibbles() of quant/blocks.hpp, with their bits.
  void (*dequantise)(Format format, const std::byte* in, float* out, std::size_t n);
  void (*dequantise_nibbles)(const std::byte* nibbles, const std::byte* scales, float* out, std::size_t n);
  // `count` rows of keys (which: 0) or values (1) of a KV pool, one behind the other: read_kv_row() of quant/kv_rows.hpp, with its bits.
  // Requires: format.is_for_kv().
  void (*unpack_kv)(Format format, std::uint32_t which, const std::byte* rows, std::size_t count, std::size_t dim, float* out);
  // One such row from its numbers: write_kv_row(), with its bits. Requires: format.is_for_kv(), dim > 0.
  void (*pack_kv)(Format format, std::uint32_t which, const float* x, std::size_t dim, std::byte* row);

  // Per block of 32: d = amax / 127, q = round to nearest even of x * (127 / amax); amax below 2^-100 counts as 0.
  // Quants, scale and correction of consecutive blocks are written `stride` blocks apart.
  void (*quantise)(const float* x, std::size_t blocks, std::size_t stride, std::int8_t* quants, float* scales, std::int32_t* corrections);
  // The same in blocks of `block` activations: 32, 64 or 128.
  void (*quantise_blocks)(const float* x, std::size_t block, std::size_t blocks, std::size_t stride, std::int8_t* quants, float* scales,
                          std::int32_t* corrections);
  // Null, or makes of quantised rows, in place, what tiles_*() and code_dots() of this set read instead (look-ups do not). `form` has the
  // group and the zero of the weights; scales and corrections have room for twice as many.
  void (*arrange)(const CodeForm& form, std::int8_t* quants, float* scales, std::int32_t* corrections, std::size_t blocks,
                  std::size_t rows);
  // `groups` consecutive groups of 16 rows in Layout::tiled. y[b * y_stride + row] = over blocks ascending,
  // acc = fma(float(dot), d_w * d_x, acc) with the exact int32 dot product of a block.
  void (*tiles_q4_0)(const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride);
  void (*tiles_q8_0)(const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride);

  // The same, and tiles_q4_k(), for one activation row and one group whose rows stand anywhere: 16 sums. Null: not by this set.
  void (*group_q4_0)(const BlockGroup& rows, Int8Rows x, float* y);
  void (*group_q8_0)(const BlockGroup& rows, Int8Rows x, float* y);
  void (*group_q4_k)(const BlockGroup& rows, KRows x, float* y);

  // Nibbles as q4_0 has them that name one of `values`: acc = fma(float(dot), d_w * factor * d_x, acc).
  void (*tiles_values)(const ValueTable& values, const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride);
  // K-quants in Layout::tiled (engine/quant/k_tiles.hpp); sc, m: the 6-bit or 8-bit integers of a block of 32 or, in q6_k, of 16.
  // q4_k: acc = fma(dmin * m, offset, acc), then acc = fma(float(dot), (d * sc) * d_x, acc) with the exact dot product of nibbles 0 to 15.
  // q5_k: the same with integers 0 to 31.
  void (*tiles_q4_k)(const std::byte* tiles, std::size_t groups, KRows x, float* y, std::size_t y_stride);
  void (*tiles_q5_k)(const std::byte* tiles, std::size_t groups, KRows x, float* y, std::size_t y_stride);
  // q6_k: acc = fma(float(dot), (d * sc) * d_x, acc) with the exact dot product of 16 integers from -32 to 31.
  void (*tiles_q6_k)(const std::byte* tiles, std::size_t groups, KRows x, float* y, std::size_t y_stride);
  // iq4_xs: the same of values that 32 nibbles name.
  void (*tiles_iq4_xs)(const std::byte* tiles, std::size_t groups, KRows x, float* y, std::size_t y_stride);
  // Codebooks, of 16 rows in file order that stand anywhere; those of `next` are requested from memory meanwhile. With d, the odd integers
  // s and the values of engine/quant/codebook_blocks.hpp: acc = fma(float(dot), (d * s) * d_x, acc), over columns that share s.
  void (*codebook_rows)(Format format, const std::byte* const* rows, const std::byte* const* next, const KRows& x, float* y,
                        std::size_t y_stride);
  // Formats of integer codes, by dot products: groups of 16 rows in Layout::tiled, or unpacked (`form.stored_bits` is 8).
  void (*code_dots)(const CodeForm& form, const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride);
  // What code_dots() leaves out of w4_outliers: y[b * y_stride + row] = fma(e v, x[b * columns + position], y) for the row's outliers in
  // their order. `x` is [rows, columns].
  void (*add_outliers)(const std::byte* tiles, std::size_t groups, Rows<float> x, float* y, std::size_t y_stride);
  // The same products by look-ups, of groups in Layout::lut.
  void (*look_ups)(const CodeForm& form, const std::byte* tiles, std::size_t groups, TableRows x, float* y, std::size_t y_stride);
  void (*tables)(const CodeForm& form, Int8Rows x, std::byte* tables, std::int32_t* minima);
  // Products and tables of variant::kInt8Tables.
  void (*rounded_look_ups)(const CodeForm& form, const std::byte* tiles, std::size_t groups, TableRows x, float* y, std::size_t y_stride);
  void (*rounded_tables)(const CodeForm& form, Int8Rows x, std::byte* tables, std::int32_t* most);
  // One group in Layout::lut -> one for code_dots, a byte for each code: columns * 16 bytes and the scales and zero points.
  void (*unpack_planes)(const CodeForm& form, const std::byte* tile, std::size_t blocks, std::byte* unpacked);

  // What the hardware bounds, for benchmarks: reading, and multiply-adds of `rounds` rounds in registers, which return
  // their number.
  std::array<ReadLoop, 4> reads;
  std::array<RowReadLoop, 4> row_reads;
  std::uint64_t (*int8_macs)(std::size_t rounds);
  std::uint64_t (*float_macs)(std::size_t rounds);
};

// The sets that this machine can run, plainest first: "portable" is always there.
std::span<const KernelSet* const> kernel_sets();
// "auto" (or empty) is the last, fastest one. Throws ConfigError with the names there are.
const KernelSet& kernel_set(std::string_view name);

// Those of this build's target folder (x86/ or neon/) that can run here, slowest first.
std::vector<const KernelSet*> target_kernel_sets();
extern const KernelSet kPortableSet;

}  // namespace vitro
