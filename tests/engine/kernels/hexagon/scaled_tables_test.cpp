// Two-level dequantisation with scales in the second tables, on the software model of qfloat.
#include "engine/kernels/hexagon/scaled_tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/hexagon/qfloat_model.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {
namespace {

using hexagon::kLutPanelRows;
using hexagon::kTile;
using hexagon::QfloatModel;
using hexagon::QfloatRounding;
using hexagon::Zeros;

constexpr std::uint32_t kColumns = 128;
constexpr double kHalfStep = 0x1p-10, kSubnormal = 0x1p-24;

TEST(ScaledTables, strips_have_each_row_of_a_panel_once) {
  std::set<std::uint32_t> rows;
  for (std::uint32_t strip = 0; strip < 4; ++strip) {
    for (std::uint32_t r = 0; r < kTile; ++r) rows.insert(hexagon::scaled_row(strip, r));
  }
  EXPECT_EQ(rows.size(), kLutPanelRows);
  EXPECT_EQ(*rows.rbegin(), kLutPanelRows - 1);
}

template <class I>
struct ScaledStages : testing::Test {
  using Vector = typename I::Vector;
  static std::vector<Vector> vectors(const void* from, std::size_t bytes) {
    std::vector<Vector> out(bytes / sizeof(Vector));
    std::copy_n(static_cast<const std::byte*>(from), bytes, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }

  // Every weight of a panel stands where the matrix unit's first operand wants it, within half a step of fp16 either way.
  template <std::uint32_t kBits, std::uint32_t kGroup, Zeros kZeros>
  void weights(std::uint32_t zero) {
    using T = hexagon::ScaledTables<kBits>;
    constexpr std::uint32_t kBlocks = kColumns / kGroup;
    Rng rng(kBits * 1000 + kGroup);
    const hexagon::PlaneForm form{kBits, kGroup, zero, kZeros, {kLutPanelRows, kColumns}};
    const std::vector<std::uint8_t> q = draw_codes(rng, kLutPanelRows * kColumns, kBits);
    const std::vector<std::uint8_t> own = draw_codes(rng, kLutPanelRows * kBlocks, kBits);
    std::vector<std::uint16_t> scales;
    for (std::uint32_t i = 0; i < kLutPanelRows * kBlocks; ++i) {
      scales.push_back(float_to_half(static_cast<float>(rng.below(2000) + 1) * 0x1p-14f));
    }
    std::vector<std::byte> bytes(hexagon::lut_panels_bytes(form, kLutPanelRows, kColumns));
    hexagon::pack_lut_panels(form, kLutPanelRows, kColumns, q.data(), scales.data(), own.data(), bytes.data());
    const std::vector<Vector> panel = vectors(bytes.data(), bytes.size());
    const std::uint32_t zeros = kZeros == Zeros::of_blocks ? hexagon::zero_bytes(kBits, kBlocks) : 0;
    const Vector *scale = &panel[zeros], *planes = scale + 2 * kBlocks;

    std::uint16_t repack[64] = {}, values[64] = {};
    const auto value = [&](std::uint32_t code) -> int {
      if (kZeros == Zeros::signs) return 2 * static_cast<int>(code) - 1;
      return static_cast<int>(code) - static_cast<int>(kZeros == Zeros::same ? zero : 0);
    };
    for (std::uint32_t e = 0; e < 16; ++e) {
      for (std::uint32_t plane = 0; plane < 4; ++plane) repack[hexagon::table_place(plane, e)] = hexagon::repack_entry(plane, e);
      values[hexagon::table_place(0, e)] = float_to_half(static_cast<float>(value(e)));
    }
    const auto first_level = vectors(repack, sizeof repack), codes = vectors(values, sizeof values),
               marks = vectors(hexagon::kScaledMarks<kBits>.words, sizeof(Vector));
    std::vector<Vector> tables(kBlocks * T::kVectors), out(std::size_t{4} * kColumns / 2);
    const hexagon::ZeroFields fields{panel[0].byte, 1, 0, hexagon::zero_field_bits(kBits)};
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      hexagon::scaled_tables<I, kBits, kZeros>(fields, b, scale + 2 * b, codes.data(), &tables[b * T::kVectors]);
    }
    for (std::uint32_t c = 0; c < kColumns; c += hexagon::kUnitColumns) {
      hexagon::scaled_unit<I, kBits, (kGroup > 32)>(planes + c / 8 * kBits, first_level[0], marks[0], &tables[c / kGroup * T::kVectors],
                                                    &tables[(c + 32) / kGroup * T::kVectors], kColumns / 2, &out[c / 2]);
    }
    for (std::uint32_t strip = 0; strip < 4; ++strip) {
      for (std::uint32_t r = 0; r < kTile; ++r) {
        const std::uint32_t row = hexagon::scaled_row(strip, r);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
          const std::uint32_t tile = strip * (kColumns / kTile) + column / kTile, place = hexagon::tile_place(r, column % kTile),
                              block = row * kBlocks + column / kGroup;
          const int code = value(q[row * kColumns + column]) - (kZeros == Zeros::of_blocks ? own[block] : 0);
          const double exact = code * static_cast<double>(half_to_float(scales[block]));
          ASSERT_NEAR(I::hf(out[tile * 16 + place / 64], place % 64), exact, std::abs(exact) * kHalfStep + kSubnormal)
              << kBits << " " << kGroup << ": " << row << " " << column;
        }
      }
    }
  }
};

using Models = testing::Types<QfloatModel<QfloatRounding::nearest>, QfloatModel<QfloatRounding::down>>;
TYPED_TEST_SUITE(ScaledStages, Models);

TYPED_TEST(ScaledStages, every_weight_stands_in_its_place) {
  this->template weights<1, 64, Zeros::signs>(0);
  this->template weights<2, 128, Zeros::of_blocks>(0);
  this->template weights<3, 32, Zeros::same>(4);
  this->template weights<4, 64, Zeros::of_blocks>(0);
  this->template weights<4, 32, Zeros::of_blocks>(0);
}

}  // namespace
}  // namespace vitro::test
