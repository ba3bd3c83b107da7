// The numeric contracts that matrix kernels come in. A variant fixes format handling and accumulation order, so it gives
// the same bits on every instruction set; docs/kernels.md derives the error bounds.
#pragma once
#include <string_view>

#include "engine/machine/kernel_call.hpp"

namespace vitro::variant {

// Weights are dequantised exactly, activations stay float32. Row dot product over 16 lanes: lane l takes the elements
// k = l (mod 16) in ascending order with one fused multiply-add each; lanes are then summed 8 apart, 4, 2, 1.
// Layout::rows, every Format.
inline constexpr VariantId kFloat{1};

// Activations are quantised per call to int8 in blocks as long as the weights' (d = amax / 127 in float32, round to nearest even),
// integer dot products are exact, and a row adds its blocks in ascending order: acc = fma(float(dot), d_w * d_x, acc).
// Formats whose values are d times integers: q8_0, q4_0, the group formats, iq4_nl, and fp4 as d / 2 times twice its values, in
// every layout that they have, whether products are computed or looked up; q4_nibbles, Layout::rows.
inline constexpr VariantId kInt8{2};

// What a matrix unit for fp16 computes (HMX, TTS-NPU 3.1.2): activations and dequantised weights are rounded to fp16, products are
// exact, a row adds them in float32 with k ascending, and the sum is rounded to fp16. Every layout, every Format but
// q4_nibbles.
inline constexpr VariantId kHmx{8};

// Of attention alone: FlashAttention in fp16 with 2^x by table (TTS-NPU 5.2.1, Algorithm 1), as lut/flash_attention.hpp has it. Queries
// that share a KV head are a tile, keys pass 128 at a time; q, K and V are rounded to fp16 first, and so is the result.
inline constexpr VariantId kLutExp{9};

// Eigen, accumulation in double: the oracle of the tests and the plainest way to read what an operator means.
inline constexpr VariantId kReference{3};

std::string_view name(VariantId id);       // "float", "int8", "hmx", "lut_exp", "reference", "none"
std::string_view describe(VariantId id);   // one line for lists
VariantId by_name(std::string_view name);  // none when unknown
bool supports(VariantId id, Format weights, Layout layout);
// True when accumulate over such weights quantises what it weights rows with, in groups of 16 rows, instead of dequantising the rows:
// kInt8 over q4_0 and q4_nibbles (KernelSet::placed_coefficients_q4_0). Otherwise it follows the float contract.
bool adds_in_int8(VariantId id, Format weights);

}  // namespace vitro::variant
