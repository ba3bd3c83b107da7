#include "engine/ops/variants.hpp"

#include "engine/ops/code_form.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/k_tiles.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro::variant {

std::string_view name(VariantId id) {
  if (id == kFloat) return "float";
  if (id == kInt8) return "int8";
  if (id == kInt8Tables) return "int8_tables";
  if (id == kInt16Tables) return "int16_tables";
  if (id == kInt8Rows) return "int8_rows";
  if (id == kHmx) return "hmx";
  if (id == kA16) return "a16";
  if (id == kHalfSums) return "half_sums";
  if (id == kLutExp) return "lut_exp";
  if (id == kExpF16) return "exp_f16";
  if (id == kExpF32) return "exp_f32";
  if (id == kReference) return "reference";
  return "none";
}

std::string_view describe(VariantId id) {
  if (id == kFloat) return "any weight format, float32 activations, 16 lanes of fused multiply-adds";
  if (id == kHmx) return "any weight format, fp16 activations, weights and results, float32 sums: a matrix unit";
  if (id == kA16) return "any weight format, fp16 activations, 16 lanes of fused multiply-adds in float32: a GPU";
  if (id == kHalfSums) return "weights in f16, fp16 activations and sums, 16 lanes of fused multiply-adds: float16 instructions";
  if (id == kInt8)
    return "weights that are integers times a scale (q4_0, q8_0, K-quants, iq1_s to iq4_xs, groups w1g32 to w8g128zr, fp4, "
           "w4_outliers), activations quantised to int8";
  if (id == kLutExp) return "attention in fp16, 2^x by table: what an NPU's vector and matrix units compute";
  if (id == kExpF16) return "attention in fp16, 2^x by a polynomial of degree 4 in fp16";
  if (id == kExpF32) return "attention in fp16, 2^x by a polynomial of degree 6 in float32";
  if (id == kInt8Tables) return "codes of one to four bits, looked up in tables of int8: sums of four activations are rounded (T-MAC)";
  if (id == kInt16Tables) return "codes of one to four bits, activations in 14 bits: exact sums of four in tables of int16 (T-MAN)";
  if (id == kInt8Rows) return "codes of one to four bits, activations in int8 with one scale per row, integer sums: a matrix unit";
  if (id == kReference) return "any weight format, accumulation in double: the oracle of the tests";
  return "";
}

VariantId by_name(std::string_view text) {
  for (const VariantId id :
       {kFloat, kInt8, kInt8Tables, kInt16Tables, kInt8Rows, kHmx, kA16, kHalfSums, kLutExp, kExpF16, kExpF32, kReference}) {
    if (name(id) == text) return id;
  }
  return VariantId::none;
}

std::optional<Exponential> exponential_of(VariantId id) {
  if (id == kLutExp) return Exponential::table;
  if (id == kExpF16) return Exponential::f16;
  if (id == kExpF32) return Exponential::f32;
  return {};
}

VariantId by_key(std::string_view value) { return value == "fp16" ? kHmx : by_name(value); }

std::size_t int8_block(Format weights) { return has_k_tiles(weights) || weights.is_codebook() ? kBlock : block_elements(weights); }

bool supports(VariantId id, Format weights, Layout layout) {
  if (weights == Format::q4_nibbles) {
    return layout == Layout::rows && (id == kFloat || id == kInt8 || id == kHmx || id == kA16 || id == kReference);
  }
  if (!weights.is_for_weights()) return false;
  const bool integers =
      weights == Format::q8_0 || code_form(weights) || integer_step(weights) || has_k_tiles(weights) || weights.is_codebook();
  if (id == kInt8) return integers && can_lay(layout, weights, kTileRows);
  if (id == kInt8Tables)
    return can_lay(Layout::lut, weights, kTileRows) && (layout == Layout::lut || (layout == Layout::rows && weights.is_group()));
  if (id == kInt8Rows || id == kInt16Tables) {
    return (weights == Format::q4_0 || has_look_ups(weights)) && can_lay(layout, weights, kTileRows);
  }
  if (id == kA16) return layout == Layout::rows;
  if (id == kHalfSums) return weights == Format::f16 && layout == Layout::rows;
  if (id == kFloat) return layout == Layout::rows || (layout == Layout::strips && can_lay(layout, weights, kStripRows));
  return (id == kReference || id == kHmx) && can_lay(layout, weights, group_rows(layout));
}

bool adds_in_int8(VariantId id, Format weights) { return id == kInt8 && (weights == Format::q4_0 || weights == Format::q4_nibbles); }

}  // namespace vitro::variant
