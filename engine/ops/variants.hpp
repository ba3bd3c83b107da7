// The numeric contracts that matrix kernels come in. A variant fixes format handling and accumulation order, so it gives
// the same bits on every instruction set; docs/design/kernels.md derives the error bounds.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/exponential.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

// How products of matrices of integer codes are made, in the int8 contract: the same bits either way (docs/design/lut-kernels.md).
enum class CodeMatmul : std::uint8_t {
  automatic,  // what is faster for a group format on these cores, dot products for q4_0
  look_up,    // look-ups for every format that has them
  dot,        // dot products alone
};

}  // namespace vitro

namespace vitro::variant {

// Weights are dequantised exactly, activations stay float32. Row dot product over 16 lanes: lane l takes the elements
// k = l (mod 16) in ascending order with one fused multiply-add each; lanes are then summed 8 apart, 4, 2, 1.
// Layout::rows, every Format; Layout::strips.
inline constexpr VariantId kFloat{1};

// Activations are quantised per call to int8 in blocks as long as the weights' (d = amax / 127 in float32, round to nearest even),
// integer dot products are exact, and a row adds its blocks in ascending order: acc = fma(float(dot), d_w * d_x, acc).
// Formats whose values are d times integers: q8_0, q4_0, the group formats, iq4_nl, and fp4 as d / 2 times twice its values, in every
// layout that they have, whether products are computed or looked up; q4_nibbles, Layout::rows. K-quants, by 32 activations: q6_k adds dots
// of 16 columns, with d_w = d sc; q4_k and q5_k first add acc = fma(m mn, -(d_x * float(sum of the quants)), acc), then the dot; iq4_xs has
// d_w = d (sc - 32) and its table's values. Codebooks (engine/quant/codebook_blocks.hpp), by 32 activations: dots of 16 or 32 columns with
// d_w = d kUnit s; Layout::rows.
// w4_outliers: blocks of nibbles with d_w = d, then the row's outliers in their order with activations as they are: acc = fma(e v, x, acc).
inline constexpr VariantId kInt8{2};

// As kInt8, but what look-ups find is rounded (T-MAC): of a block of quants x, the signed sums S of four are rounded to int8 with one unit,
// e = (S r + 2^14) >> 15 with r = min(32767, floor(127 2^15 / M)), M the largest |S|. With w = sum over planes i of 2^i sum of the e that
// the bits of plane i find, and sums of x exact: dot = fma(float(w), float(M) / 127 * step / 2, (step (2^bits - 1) - 2 zero) sum / 2), and
// acc = fma(dot, d_w * d_x, acc). Of the formats of kInt8 those with planes: group formats in Layout::lut or rows, q4_0 in Layout::lut.
inline constexpr VariantId kInt8Tables{10};

// As kInt8, but activations are quantised to 14 bits, d = amax / kMostWide, so that a table's sums of four fill 16 bits (T-MAN 4.1, Table
// 1: 16-bit activations) and are exact; dot products are below 2^24, sums of 32 bits that float32 holds. Group formats of one to four bits
// and q4_0, every layout.
inline constexpr VariantId kInt16Tables{13};
inline constexpr int kMostWide = 8191;

// What a matrix unit for fp16 computes (HMX, TTS-NPU 3.1.2): activations and dequantised weights are rounded to fp16, products are
// exact, a row adds them in float32 with k ascending, and the sum is rounded to fp16. Every layout, every Format.
inline constexpr VariantId kHmx{8};

// What a GPU computes (W4A16, W8A16; MNN-LLM 4.2): activations are rounded to fp16, all else is as in kFloat, so that work items may
// have the 16 lanes between them. Layout::rows, every Format.
inline constexpr VariantId kA16{12};

// What float16 instructions compute (MNN-LLM 5.3): activations are rounded to fp16, and so is every sum. Row dot product over 16 lanes as
// in kFloat, but each fused multiply-add is rounded to fp16, and so is each sum of two lanes. Beyond 65,504 a sum is infinite.
// Format::f16, Layout::rows.
inline constexpr VariantId kHalfSums{14};

// What a matrix unit for int8 computes with weights of one scale (BitNet's, T-MAN 6.2): as kInt8, but a row of activations has one scale,
// and a row's products are added in integers as far as its weights' scale stays the same: over blocks ascending, where the next scale is
// another one, acc = fma(float(sum), d_w * d_x, acc). Group formats and q4_0, every layout; fewer than 2^17 columns.
inline constexpr VariantId kInt8Rows{11};

// Of attention alone: FlashAttention in fp16 (TTS-NPU 5.2.1, Algorithm 1), as lut/flash_attention.hpp has it. Queries that share a KV head
// are a tile, keys pass 128 at a time; q, K and V are rounded to fp16 first, and so is the result. 2^x is made by table, or by a
// polynomial (hexagon/attention_stages.hpp: ExpByHalf, ExpByFloat).
inline constexpr VariantId kLutExp{9}, kExpF16{15}, kExpF32{16};
// How such an attention makes 2^x; none for all other contracts.
std::optional<Exponential> exponential_of(VariantId id);
inline bool attends_in_fp16(VariantId id) { return exponential_of(id).has_value(); }

// Eigen, accumulation in double: the oracle of the tests and the plainest way to read what an operator means.
inline constexpr VariantId kReference{3};

// All of them but those of attention.
inline constexpr VariantId kOfMatmuls[] = {kFloat, kInt8, kInt8Tables, kInt16Tables, kInt8Rows, kHmx, kA16, kHalfSums, kReference};

std::string_view name(VariantId id);       // "float", "int8", "int8_tables", "int8_rows", "hmx", "a16", ..., "none"
std::string_view describe(VariantId id);   // one line for lists
VariantId by_name(std::string_view name);  // none when unknown
VariantId by_key(std::string_view value);  // as keys of experiments name it, which call kHmx fp16; none when unknown
// Activations that share a scale in kInt8: as many as the weights that do, 32 with K-quants and codebooks.
std::size_t int8_block(Format weights);
bool supports(VariantId id, Format weights, Layout layout);
// True when accumulate over such weights quantises what it weights rows with, in groups of 16 rows, instead of dequantising the rows:
// kInt8 over q4_0 and q4_nibbles (KernelSet::placed_coefficients_q4_0). Otherwise it follows the float contract.
bool adds_in_int8(VariantId id, Format weights);

}  // namespace vitro::variant
