#include "engine/kernels/variants.hpp"

namespace vitro::variant {

std::string_view name(VariantId id) {
  if (id == kFloat) return "float";
  if (id == kInt8) return "int8";
  if (id == kReference) return "reference";
  return "none";
}

std::string_view describe(VariantId id) {
  if (id == kFloat) return "any weight format, float32 activations, 16 lanes of fused multiply-adds";
  if (id == kInt8) return "q4_0 and q8_0 weights, activations quantised to int8 in blocks of 32";
  if (id == kReference) return "any weight format, accumulation in double: the oracle of the tests";
  return "";
}

VariantId by_name(std::string_view text) {
  for (const VariantId id : {kFloat, kInt8, kReference}) {
    if (name(id) == text) return id;
  }
  return VariantId::none;
}

bool supports(VariantId id, Format weights, Layout layout) {
  if (weights == Format::index32) return false;
  if (weights == Format::q4_nibbles) return layout == Layout::rows && id != VariantId::none;
  const bool blocks_of_32 = weights == Format::q4_0 || weights == Format::q8_0;
  if (id == kInt8) return blocks_of_32;
  if (id == kFloat) return layout == Layout::rows;
  return id == kReference && (layout == Layout::rows || blocks_of_32);
}

bool adds_in_int8(VariantId id, Format weights) { return id == kInt8 && (weights == Format::q4_0 || weights == Format::q4_nibbles); }

}  // namespace vitro::variant
