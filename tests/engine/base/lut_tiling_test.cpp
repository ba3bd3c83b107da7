#include "engine/base/lut_tiling.hpp"

#include <gmock/gmock.h>

#include "engine/base/check.hpp"

namespace vitro::lut {
namespace {

TEST(Tiling, a_look_up_stands_for_the_published_multiply_adds) {  // T-MAN Table 1
  const TilingLimits limits;
  EXPECT_EQ(equivalent_madds(limits, kVlut16, 8), 1024u);
  EXPECT_EQ(equivalent_madds(limits, kVlut16, 16), 512u);
  EXPECT_EQ(equivalent_madds(limits, kVlut32, 8), 640u);
  EXPECT_EQ(equivalent_madds(limits, kVlut32, 16), 320u);
}

TEST(Tiling, sixteen_registers_of_tables_make_a_k_tile_of_256) {  // T-MAN 4.3
  for (const std::uint32_t bits : {2u, 4u}) {
    for (const std::uint32_t group : {64u, 128u}) {
      const auto tiling = search_tiling({}, {bits, group});
      ASSERT_TRUE(tiling);
      EXPECT_EQ(tiling->look_up.name, "VLUT16");
      EXPECT_EQ(tiling->table_registers, 16u);
      EXPECT_EQ(tiling->columns, 256u);
    }
  }
}

// One activation row: 16 bits hold one value that is asked for, so bytes are as good in vlut32, which leaves room for a shift.
TEST(Tiling, look_ups_are_chosen_by_what_they_find_for_the_rows_at_hand) {
  EXPECT_EQ(kernel_madds({}, kVlut16, 16), 512u);
  EXPECT_EQ(kernel_madds({}, kVlut32, 16), 256u);
  EXPECT_EQ(search_tiling({}, {2, 64}, 16)->look_up.name, "VLUT16");
  EXPECT_EQ(kernel_madds({}, kVlut16, 8), kernel_madds({}, kVlut32, 8));
  EXPECT_EQ(search_tiling({}, {2, 64}, 8)->look_up.name, "VLUT32");
  TilingLimits two;
  two.decode_rows = 2;
  EXPECT_EQ(kernel_madds(two, kVlut16, 8), 1024u);
  EXPECT_EQ(search_tiling(two, {2, 64}, 8)->look_up.name, "VLUT16");
}

TEST(Tiling, keeps_every_limit) {
  for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) {
    for (const Bytes tcm : {Bytes{512 * KiB}, Bytes{2 * MiB}, Bytes{8 * MiB}}) {
      for (const std::uint32_t registers : {16u, 24u, 32u}) {
        TilingLimits limits;
        limits.tcm = tcm;
        limits.registers = registers;
        const auto t = search_tiling(limits, {bits, 64});
        ASSERT_TRUE(t);
        EXPECT_LE(t->table_registers + t->other_registers, registers);
        EXPECT_EQ(t->rows, t->decode_row_steps * limits.vector_bytes);  // one layout for both phases
        EXPECT_EQ(t->rows, t->mma_row_steps * limits.mma);
        EXPECT_EQ(t->columns, t->mma_depth_steps * limits.mma);
        EXPECT_EQ(t->columns % 64, 0u);
        EXPECT_EQ(limits.activation_group % t->columns, 0u);
        EXPECT_LE(t->tcm, tcm);
        EXPECT_EQ(t->tcm, limits.reserved + 4 * (2 * (t->weights + t->dequantised + t->activations + t->results) + t->spill));
      }
    }
  }
}

// Threads of a phone share a matrix by tiles.
TEST(Tiling, rows_of_a_matrix_are_shared_evenly) {
  const TilingLimits limits;
  const auto tiling = *search_tiling(limits, {4, 64});
  ASSERT_EQ(tiling.rows, 1280u);
  EXPECT_EQ(even_rows(limits, tiling, 4096), 1024u);
  EXPECT_EQ(even_rows(limits, tiling, 512), 128u);
  EXPECT_EQ(even_rows(limits, tiling, 16), 128u);
  EXPECT_EQ(even_rows(limits, tiling, 14336), 1280u);  // 28 vectors of rows for a thread: three tiles
  for (std::uint32_t rows = 1; rows < 40000; rows += 97) {
    const std::uint32_t tile = even_rows(limits, tiling, rows);
    EXPECT_EQ(tile % limits.vector_bytes, 0u);
    EXPECT_LE(tile, tiling.rows);
    EXPECT_GT(tile, 0u);
  }
}

// A table meets all planes before the next one, so more planes are more sums, and fewer tables.
TEST(Tiling, sums_of_planes_take_registers_from_tables) {
  TilingLimits few;
  few.registers = 22;
  EXPECT_EQ(search_tiling(few, {1, 64})->table_registers, 16u);
  EXPECT_EQ(search_tiling(few, {4, 64})->table_registers, 8u);
}

TEST(Tiling, less_room_costs_rows_before_tables) {
  TilingLimits small;
  small.tcm = MiB;
  const auto large = search_tiling({}, {4, 64}), less = search_tiling(small, {4, 64});
  EXPECT_EQ(less->table_registers, large->table_registers);
  EXPECT_LT(less->rows, large->rows);
  TilingLimits few;
  few.registers = 18;
  EXPECT_LT(search_tiling(few, {4, 64})->columns, large->columns);
}

TEST(Tiling, says_when_nothing_fits) {
  TilingLimits limits;
  limits.tcm = 128 * KiB;
  EXPECT_FALSE(search_tiling(limits, {4, 64}));
  limits = {};
  limits.registers = 8;
  EXPECT_FALSE(search_tiling(limits, {4, 64}));
  EXPECT_THROW(search_tiling({}, {5, 64}), ConfigError);
  EXPECT_THROW(search_tiling({}, {4, 96}), ConfigError);
}

TEST(Tiling, prints_its_choice) {
  EXPECT_THAT(describe(*search_tiling({}, {2, 128})), testing::HasSubstr("VLUT16: 16 registers of tables"));
}

}  // namespace
}  // namespace vitro::lut
