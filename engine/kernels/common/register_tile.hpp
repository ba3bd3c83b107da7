// Register tiles of matrix products: e_p rows of activations times h_p rows of weights whose sums stay in vector registers while l
// passes, l_p int8 of a row at a time (MNN-LLM 5.1). The solver takes the tile that accesses memory least (equation 2) of those whose
// operands and sums fit in the registers (equation 3). l_p is what an instruction takes (equation 4).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vitro {

// A multiply-add of int8 into int32 sums, or the short sequence that stands for one.
struct DotInstruction {
  std::string_view name, kernel_set;       // the set whose kernels are made of it
  std::uint32_t registers, register_bits;  // vector registers that a program can name
  std::uint32_t depth;                     // int8 of one row that one sum takes: l_p
  std::uint32_t sum_rows_e, sum_rows_h;    // activation and weight rows of the sums in one register
  bool broadcast;                          // activations go in with the same `depth` bytes in every lane
  std::string_view kind, source;           // of these numbers

  constexpr std::uint32_t rows_in_register() const { return register_bits / 8 / depth; }  // of an operand
};

// What e_p, h_p and e_p h_p stand for in equations 2 and 3, which the paper does not say.
enum class Counting : std::uint8_t {
  printed,    // themselves: one register, one access for each
  words,      // 128-bit words that int8 operands and int32 sums fill; accesses in elements
  registers,  // registers of the instruction's own width that they fill; accesses in elements
  loads,      // as `registers`, but a broadcast row of activations fills a register, and accesses are those of whole registers
};
inline constexpr std::array kCountings{Counting::printed, Counting::words, Counting::registers, Counting::loads};
std::string_view to_string(Counting counting);
std::string_view describe(Counting counting);

// sums: registers of sums for each that the product needs: 2 where a block's int32 sums join float32 ones by its scale.
struct TileReading {
  Counting counting{};
  std::uint32_t sums = 1;
};

struct RegisterTile {
  std::uint32_t e = 0, h = 0, l = 0;
  friend constexpr bool operator==(const RegisterTile&, const RegisterTile&) = default;
};

// A product of activations [e, l] and weights [h, l].
struct ProductShape {
  std::uint64_t e = 0, h = 0, l = 0;
};

namespace register_tile {

constexpr std::uint32_t up(std::uint32_t n, std::uint32_t unit) { return (n + unit - 1) / unit; }

// Registers that a tile's activations, weights and sums fill.
struct Fill {
  std::uint32_t activations, weights, sums;
};
constexpr Fill fill(const DotInstruction& i, Counting counting, const RegisterTile& t) {
  if (counting == Counting::printed) return {t.e, t.h, t.e * t.h};
  const std::uint32_t bytes = (counting == Counting::words ? 128 : i.register_bits) / 8;
  const bool broadcast = counting == Counting::loads && i.broadcast;
  return {broadcast ? t.e : up(t.e * t.l, bytes), up(t.h * t.l, bytes), up(4 * t.e * t.h, bytes)};
}

// Tiles grow by whole words of activations and whole registers of weights; as printed, by rows.
constexpr std::uint32_t step_e(const DotInstruction& i, Counting counting) {
  return counting == Counting::printed || (counting == Counting::loads && i.broadcast) ? 1 : 16 / i.depth;
}
constexpr std::uint32_t step_h(const DotInstruction& i, Counting counting) {
  return counting == Counting::printed ? 1 : i.rows_in_register();
}

// Accesses to operands for each sum and step of l, as a fraction: what equation 2 comes down to, since sums are written once.
struct Fraction {
  std::uint64_t over, under;
  friend constexpr bool operator<(const Fraction& a, const Fraction& b) { return a.over * b.under < b.over * a.under; }
};
constexpr Fraction accesses_per_sum(const DotInstruction& i, Counting counting, const RegisterTile& t) {
  const std::uint64_t sums = std::uint64_t{t.e} * t.h;
  if (counting != Counting::loads) return {t.e + t.h, sums};
  const Fill f = fill(i, counting, t);
  return {f.activations + f.weights, sums};
}

}  // namespace register_tile

// The left side of equation 3.
constexpr std::uint32_t registers_of(const DotInstruction& i, TileReading reading, const RegisterTile& tile) {
  const register_tile::Fill fill = register_tile::fill(i, reading.counting, tile);
  return fill.activations + fill.weights + reading.sums * fill.sums;
}

// Equations 2 to 4. Of tiles with equally many accesses, the one with most rows of activations: weights, which are more, are then
// loaded less often. A tile is no larger than the product. None where not even one step of each fits. Requires: shape has no zero.
constexpr std::optional<RegisterTile> solve_tile(const DotInstruction& i, TileReading reading, const ProductShape& shape) {
  const std::uint32_t step_e = register_tile::step_e(i, reading.counting), step_h = register_tile::step_h(i, reading.counting);
  std::optional<RegisterTile> best;
  for (RegisterTile t{step_e, step_h, i.depth}; registers_of(i, reading, t) <= i.registers && t.e < shape.e + step_e; t.e += step_e) {
    for (t.h = step_h; registers_of(i, reading, t) <= i.registers && t.h < shape.h + step_h; t.h += step_h) {
      const auto ours = register_tile::accesses_per_sum(i, reading.counting, t);
      if (!best || !(register_tile::accesses_per_sum(i, reading.counting, *best) < ours)) best = t;
    }
    t.h = step_h;
  }
  return best;
}

// Accesses of a product without tiles (2ehl + eh) and in tiles (equation 2): elements, or registers in Counting::loads.
double accesses_untiled(const DotInstruction& i, Counting counting, const ProductShape& shape);
double accesses_tiled(const DotInstruction& i, Counting counting, const RegisterTile& tile, const ProductShape& shape);

// Of the sets that have one, slowest first.
std::span<const DotInstruction> dot_instructions();

}  // namespace vitro
