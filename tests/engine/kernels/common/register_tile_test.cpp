#include "engine/kernels/common/register_tile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace vitro {
namespace {

constexpr ProductShape kLarge{1024, 4096, 4096};

const DotInstruction& instruction(std::string_view name) { return *std::ranges::find(dot_instructions(), name, &DotInstruction::name); }

TEST(RegisterTile, instructions_fill_a_register_with_their_sums) {
  for (const DotInstruction& i : dot_instructions()) {
    EXPECT_EQ(i.sum_rows_e * i.sum_rows_h * 32, i.register_bits) << i.name;
    EXPECT_EQ(i.sum_rows_h * i.depth * 8, i.register_bits) << i.name << ": one register of weights";
  }
}

// By trying all tiles whose sides are whole steps.
TEST(RegisterTile, no_tile_that_fits_accesses_less) {
  for (const DotInstruction& i : dot_instructions()) {
    for (const Counting counting : kCountings) {
      for (const std::uint32_t sums : {1u, 2u}) {
        const TileReading reading{counting, sums};
        const std::optional<RegisterTile> best = solve_tile(i, reading, kLarge);
        EXPECT_TRUE(!best || registers_of(i, reading, *best) <= i.registers);
        const double least = best ? accesses_tiled(i, counting, *best, kLarge) : INFINITY;  // then nothing fits
        for (std::uint32_t e = register_tile::step_e(i, counting); e <= 512; e += register_tile::step_e(i, counting)) {
          for (std::uint32_t h = register_tile::step_h(i, counting); h <= 512; h += register_tile::step_h(i, counting)) {
            const RegisterTile other{e, h, i.depth};
            if (registers_of(i, reading, other) > i.registers) continue;
            EXPECT_GE(accesses_tiled(i, counting, other, kLarge), least * (1 - 1e-12))
                << i.name << " " << to_string(counting) << " " << e << " x " << h;
          }
        }
      }
    }
  }
}

TEST(RegisterTile, of_equal_tiles_the_one_with_more_activations_is_taken) {
  EXPECT_EQ(solve_tile(instruction("sdot"), {Counting::words}, kLarge), (RegisterTile{12, 8, 4}));
  EXPECT_EQ(registers_of(instruction("sdot"), {Counting::words}, {8, 12, 4}),
            registers_of(instruction("sdot"), {Counting::words}, {12, 8, 4}));
}

// Table 2, in 128-bit words: the count that both ARM rows meet.
TEST(RegisterTile, table_2_in_words) {
  const auto words = [](std::string_view name, RegisterTile row) { return registers_of(instruction(name), {Counting::words}, row); };
  EXPECT_EQ(words("sdot", {12, 8, 4}), 29u);
  EXPECT_EQ(words("smmla", {10, 8, 8}), 29u);
  EXPECT_EQ(words("vpmaddubsw", {4, 8, 4}), 11u);
  EXPECT_EQ(words("vpdpbusd", {4, 64, 4}), 81u);  // of 32
  EXPECT_EQ(solve_tile(instruction("smmla"), {Counting::words}, kLarge), (RegisterTile{10, 8, 8}));
  EXPECT_EQ(solve_tile(instruction("vpmaddubsw"), {Counting::words}, kLarge), (RegisterTile{4, 8, 4}));
}

TEST(RegisterTile, there_is_none_where_not_even_the_smallest_fits) {
  EXPECT_FALSE(solve_tile(instruction("vpmaddubsw"), {Counting::words, 2}, kLarge));  // 1 + 2 + 2 * 8 of 16
}

TEST(RegisterTile, a_tile_is_no_larger_than_the_product) {
  EXPECT_EQ(solve_tile(instruction("smmla"), {Counting::words}, {1, 4096, 64})->e, 2u);
  EXPECT_EQ(solve_tile(instruction("sdot"), {Counting::words}, {1, 4096, 64})->h, 24u);  // what 12 rows of activations leave to weights
  EXPECT_EQ(solve_tile(instruction("vpdpbusd"), {Counting::loads}, {1, 4096, 64})->e, 1u);
}

TEST(RegisterTile, without_tiles_each_product_loads_both_operands) {
  EXPECT_EQ(accesses_untiled(instruction("sdot"), Counting::words, {3, 5, 7}), 2.0 * 3 * 5 * 7 + 15);
  EXPECT_EQ(accesses_tiled(instruction("sdot"), Counting::printed, {1, 1, 1}, {3, 5, 7}), 2.0 * 3 * 5 * 7 + 15);
  EXPECT_EQ(accesses_untiled(instruction("vpmaddubsw"), Counting::loads, {1, 8, 4}), 3);  // one instruction: two loads, a store
}

// Kernels of formats with block scales hold two registers of sums: the tile of kernels/x86/avx2.cpp.
TEST(RegisterTile, two_kinds_of_sums_leave_avx2_two_rows_of_activations) {
  static_assert(solve_tile({"", "", 16, 256, 4, 1, 8, true, "", ""}, {Counting::loads, 2}, kLarge) == RegisterTile{2, 16, 4});
  EXPECT_EQ(solve_tile(instruction("vpmaddubsw"), {Counting::loads, 2}, kLarge), (RegisterTile{2, 16, 4}));
}

}  // namespace
}  // namespace vitro
