#include "engine/kernels/common/register_tile.hpp"

namespace vitro {
namespace {

constexpr DotInstruction kInstructions[] = {
    {"vpmaddubsw", "avx2", 16, 256, 4, 1, 8, true, "spec",
     "Intel SDM 2: VPMADDUBSW and VPMADDWD (VEX.256), which add the products of 4 bytes in two instructions"},
    {"vpdpbusd", "avx512", 32, 512, 4, 1, 16, true, "spec", "Intel SDM 2: VPDPBUSD (EVEX.512), AVX512_VNNI"},
    {"sdot", "neon-dotprod", 32, 128, 4, 1, 4, false, "spec", "Arm ARM: SDOT (by element), FEAT_DotProd"},
    {"smmla", "neon-i8mm", 32, 128, 8, 2, 2, false, "spec", "Arm ARM: SMMLA (vector), FEAT_I8MM"},
};

}  // namespace

std::span<const DotInstruction> dot_instructions() { return kInstructions; }

std::string_view to_string(Counting counting) {
  constexpr std::string_view kNames[] = {"printed", "words", "registers", "loads"};
  return kNames[static_cast<std::size_t>(counting)];
}

std::string_view describe(Counting counting) {
  constexpr std::string_view kTexts[] = {
      "equation 3 as printed: a register for each number",
      "128-bit words that int8 operands and int32 sums fill",
      "registers of the instruction's width that they fill",
      "registers as they are loaded: a broadcast row of activations fills one; accesses are loads and stores of registers",
  };
  return kTexts[static_cast<std::size_t>(counting)];
}

double accesses_untiled(const DotInstruction& i, Counting counting, const ProductShape& shape) {
  const double e = static_cast<double>(shape.e), h = static_cast<double>(shape.h), l = static_cast<double>(shape.l);
  if (counting != Counting::loads) return 2 * e * h * l + e * h;
  const double in_register = i.sum_rows_e * i.sum_rows_h;
  return (2 * l / i.depth + 1) * e * h / in_register;
}

double accesses_tiled(const DotInstruction& i, Counting counting, const RegisterTile& tile, const ProductShape& shape) {
  const double tiles = static_cast<double>(shape.e) / tile.e * static_cast<double>(shape.h) / tile.h, l = static_cast<double>(shape.l);
  if (counting != Counting::loads) return tiles * (l * tile.e + l * tile.h + double{1} * tile.h * tile.e);
  const register_tile::Fill fill = register_tile::fill(i, counting, tile);
  return tiles * (l / tile.l * (fill.activations + fill.weights) + fill.sums);
}

}  // namespace vitro
