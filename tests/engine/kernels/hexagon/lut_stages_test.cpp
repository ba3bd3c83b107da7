// What follows the look-ups of bit-serial weights, on the software model: Finalize and two-level dequantisation hold their bounds however
// qfloat rounds. The integers in them are exact.
#include "engine/kernels/hexagon/lut_stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/kernels/hexagon/float_stages.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/hexagon/qfloat_model.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/tile_groups.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {
namespace {

using hexagon::kLutPanelRows;
using hexagon::kTile;
using hexagon::PlaneForm;
using hexagon::QfloatModel;
using hexagon::QfloatRounding;
using hexagon::tile_place;
using hexagon::Zeros;

constexpr double kHalfStep = 0x1p-10, kSubnormal = 0x1p-24, kQ32Step = 0x1p-23;

template <class I>
class LutStages : public testing::Test {
 protected:
  using Vector = typename I::Vector;

  // A panel drawn at random, and what it is made of.
  struct Panel {
    PlaneForm form;
    std::uint32_t columns, blocks;
    std::vector<std::uint8_t> q, zeros;
    std::vector<std::uint16_t> scales;
    std::vector<std::byte> bytes;

    Panel(Rng& rng, PlaneForm f, std::uint32_t k)  // of one tile, as wide as it is
        : form{f.bits, f.group, f.zero, f.zeros, {kLutPanelRows, static_cast<std::uint16_t>(k)}},
          columns(k),
          blocks(k / f.group),
          q(draw_codes(rng, kLutPanelRows * k, f.bits)),
          zeros(draw_codes(rng, kLutPanelRows * blocks, f.bits)) {
      for (std::uint32_t i = 0; i < kLutPanelRows * blocks; ++i) {
        scales.push_back(float_to_half(static_cast<float>(rng.below(2000) + 1) * 0x1p-14f));
      }
      bytes.resize(hexagon::lut_panels_bytes(form, kLutPanelRows, columns));
      hexagon::pack_lut_panels(form, kLutPanelRows, columns, q.data(), scales.data(), zeros.data(), bytes.data());
    }
    int code(std::uint32_t row, std::uint32_t column) const {
      const int value = q[row * columns + column];
      if (form.zeros == Zeros::signs) return 2 * value - 1;
      return value - static_cast<int>(form.zeros == Zeros::same ? form.zero : zeros[row * blocks + column / form.group]);
    }
    // Vectors of the part that has zero points, which is the first; a tile has one panel here.
    std::uint32_t zero_vectors() const { return form.zeros == Zeros::of_blocks ? hexagon::zero_bytes(form.bits, blocks) : 0; }
    double scale(std::uint32_t row, std::uint32_t block) const { return static_cast<double>(half_to_float(scales[row * blocks + block])); }
  };

  static std::vector<Vector> vectors(const std::byte* from, std::size_t count) {
    std::vector<Vector> out(count);
    std::copy_n(from, count * sizeof(Vector), reinterpret_cast<std::byte*>(out.data()));  // memcpy must not see the null of no vectors
    return out;
  }

  // Those of a panel from block `first` on.
  static hexagon::ZeroFields zero_fields(const Panel& p, const std::vector<Vector>& zeros, std::uint32_t first = 0) {
    return {reinterpret_cast<const unsigned char*>(zeros.data()), 1, first, hexagon::zero_field_bits(p.form.bits)};
  }

  template <Zeros kZeros>
  void finalize(PlaneForm form) {
    Rng rng(form.bits * 100 + form.group);
    const Panel p(rng, form, 4 * form.group);
    const std::vector<std::int8_t> x = draw_quants(rng, p.columns);
    std::vector<std::int32_t> words;
    std::vector<double> x_scales;
    std::vector<std::int32_t> weighted(p.blocks * kLutPanelRows);
    for (std::uint32_t b = 0; b < p.blocks; ++b) {
      const float scale = static_cast<float>(rng.below(100000) + 1) * 0x1p-20f;
      std::int32_t sum = 0;
      for (std::uint32_t i = 0; i < form.group; ++i) sum += x[b * form.group + i];
      words.insert(words.end(), {std::bit_cast<std::int32_t>(scale), sum});
      x_scales.push_back(double{scale});
      for (std::uint32_t row = 0; row < kLutPanelRows; ++row) {
        for (std::uint32_t i = 0; i < form.group; ++i) {
          for (std::uint32_t bit = 0; bit < form.bits; ++bit) {
            const std::int32_t value = x[b * form.group + i] * (1 << bit);
            weighted[b * kLutPanelRows + row] += (p.q[row * p.columns + b * form.group + i] >> bit & 1) != 0 ? value : -value;
          }
        }
      }
    }
    const auto w = vectors(reinterpret_cast<const std::byte*>(weighted.data()), p.blocks * 4);
    const auto zeros = vectors(p.bytes.data(), p.zero_vectors());
    const auto scales = vectors(p.bytes.data() + p.zero_vectors() * kLutPanelRows, p.blocks * 2);
    const int factor = (1 << form.bits) - 1 - (kZeros == Zeros::same ? 2 * static_cast<int>(form.zero) : 0);
    Vector y[4] = {};
    const std::uint32_t first = p.blocks / 2;  // two tiles
    hexagon::lut_finalize<I, kZeros>(w.data(), zero_fields(p, zeros), scales.data(), words.data(), factor, first, y);
    hexagon::lut_finalize<I, kZeros>(w.data() + first * 4, zero_fields(p, zeros, first), scales.data() + first * 2,
                                     words.data() + first * 2, factor, p.blocks - first, y);
    for (std::uint32_t row = 0; row < kLutPanelRows; ++row) {
      double exact = 0, magnitude = 0;
      for (std::uint32_t b = 0; b < p.blocks; ++b) {
        int dot = 0;
        for (std::uint32_t i = b * form.group; i < (b + 1) * form.group; ++i) dot += p.code(row, i) * x[i];
        const double term = dot * p.scale(row, b) * x_scales[b];
        exact += term;
        magnitude += std::abs(term);
      }
      const double roundings = p.blocks + 3;  // two products per term, then the sums, and one between tiles
      ASSERT_NEAR(I::sf(y[row / 32], row % 32), exact, magnitude * roundings * kQ32Step / (1 - roundings * kQ32Step))
          << form.bits << " " << form.group << " " << row;
    }
  }

  // With tables of int8: weighted sums are drawn, not looked up.
  template <Zeros kZeros>
  void finalize_rounded(PlaneForm form) {
    Rng rng(form.bits * 100 + form.group);
    const Panel p(rng, form, 4 * form.group);
    const std::int32_t step = kZeros == Zeros::signs ? 2 : 1, zero = kZeros == Zeros::signs ? 1 : static_cast<std::int32_t>(form.zero);
    const std::int32_t steps = step * ((1 << form.bits) - 1) - (kZeros == Zeros::of_blocks ? 0 : 2 * zero);
    std::vector<hexagon::RoundedScale> x(p.blocks);
    for (auto& block : x) {
      block = {static_cast<float>(rng.below(100000) + 1) * 0x1p-20f, static_cast<std::int32_t>(rng.below(254 * form.group)), 0,
               static_cast<float>(rng.below(508) + 1) / 127};
      block.sum -= 127 * static_cast<std::int32_t>(form.group);
    }
    std::vector<std::int32_t> weighted(p.blocks * kLutPanelRows);
    const std::uint32_t most = 127 * ((1u << form.bits) - 1) * form.group / 4;
    for (auto& w : weighted) w = static_cast<std::int32_t>(rng.below(2 * most + 1)) - static_cast<std::int32_t>(most);
    const auto w = vectors(reinterpret_cast<const std::byte*>(weighted.data()), p.blocks * 4);
    const auto zeros = vectors(p.bytes.data(), p.zero_vectors());
    const auto scales = vectors(p.bytes.data() + p.zero_vectors() * kLutPanelRows, p.blocks * 2);
    std::vector<std::int32_t> words(p.blocks * 4);
    std::memcpy(words.data(), x.data(), words.size() * 4);
    Vector y[4] = {};
    hexagon::lut_finalize_rounded<I, kZeros>(w.data(), zero_fields(p, zeros), scales.data(), words.data(), steps, p.blocks, y);
    for (std::uint32_t row = 0; row < kLutPanelRows; ++row) {
      double exact = 0, magnitude = 0;
      for (std::uint32_t b = 0; b < p.blocks; ++b) {
        const std::int32_t own = kZeros == Zeros::of_blocks ? p.zeros[row * p.blocks + b] : 0;
        const double scale = p.scale(row, b) * double{x[b].scale};
        const double found = weighted[b * kLutPanelRows + row] * double{x[b].unit}, rest = (steps - 2 * own) * x[b].sum * 0.5;
        exact += (found + rest) * scale;
        magnitude += (std::abs(found) + std::abs(rest)) * scale;
      }
      const double roundings = p.blocks + 4;  // of the unit's product, their sum and two products with scales, then the sums
      ASSERT_NEAR(I::sf(y[row / 32], row % 32), exact, magnitude * roundings * kQ32Step / (1 - roundings * kQ32Step))
          << form.bits << " " << form.group << " " << row;
    }
  }

  // Stages of rows that have one scale, beside the same with that scale in every block.
  template <std::uint32_t kBits, Zeros kZeros>
  void once_and_repeated() {
    constexpr std::uint32_t kGroup = 64;
    constexpr auto kRows = hexagon::Scales::of_rows;
    Rng rng(kBits);
    const Panel p(rng, {kBits, kGroup, 0, kZeros}, 4 * kGroup);
    const auto once = vectors(p.bytes.data(), 2);
    std::vector<Vector> repeated;
    for (std::uint32_t b = 0; b < p.blocks; ++b) repeated.insert(repeated.end(), once.begin(), once.end());
    std::vector<std::int32_t> weighted(p.blocks * kLutPanelRows);
    for (auto& w : weighted) w = static_cast<std::int32_t>(rng.below(20000)) - 10000;
    std::vector<hexagon::RoundedScale> x(p.blocks);
    for (auto& block : x) block = {static_cast<float>(rng.below(1000)) * 0x1p-16f, static_cast<std::int32_t>(rng.below(2000)), 0, 0.25f};
    std::vector<std::int32_t> words(p.blocks * 4);
    std::memcpy(words.data(), x.data(), words.size() * 4);
    const auto w = vectors(reinterpret_cast<const std::byte*>(weighted.data()), p.blocks * 4);
    const auto planes = vectors(p.bytes.data() + p.blocks * 2 * 128, p.columns / 8 * kBits);
    Vector y[4][4] = {};
    hexagon::lut_finalize<I, kZeros>(w.data(), {}, repeated.data(), words.data(), 1, p.blocks, y[0]);
    hexagon::lut_finalize<I, kZeros, kRows>(w.data(), {}, once.data(), words.data(), 1, p.blocks, y[1]);
    hexagon::lut_finalize_rounded<I, kZeros>(w.data(), {}, repeated.data(), words.data(), 1, p.blocks, y[2]);
    hexagon::lut_finalize_rounded<I, kZeros, kRows>(w.data(), {}, once.data(), words.data(), 1, p.blocks, y[3]);
    EXPECT_EQ(std::memcmp(y[0], y[1], sizeof y[0]), 0);
    EXPECT_EQ(std::memcmp(y[2], y[3], sizeof y[2]), 0);
    std::vector<Vector> tiles[2];
    for (auto& out : tiles) out.resize(std::size_t{4} * p.columns / 2);
    hexagon::lut_dequantise<I, kBits, kGroup, kZeros>(planes.data(), {}, repeated.data(), w[0], w[1], p.blocks, tiles[0].data());
    hexagon::lut_dequantise<I, kBits, kGroup, kZeros, kRows>(planes.data(), {}, once.data(), w[0], w[1], p.blocks, tiles[1].data());
    EXPECT_EQ(std::memcmp(tiles[0].data(), tiles[1].data(), tiles[0].size() * sizeof(Vector)), 0);
  }

  template <std::uint32_t kBits, std::uint32_t kGroup, Zeros kZeros>
  void dequantise(std::uint32_t zero) {
    Rng rng(kBits * 1000 + kGroup);
    const Panel p(rng, {kBits, kGroup, zero, kZeros}, 2 * kGroup);
    const std::size_t scale_vectors = p.blocks * 2, zero_vectors = p.zero_vectors();
    const auto zeros = vectors(p.bytes.data(), zero_vectors);
    const auto scales = vectors(p.bytes.data() + zero_vectors * 128, scale_vectors);
    const auto planes = vectors(p.bytes.data() + (scale_vectors + zero_vectors) * 128, p.columns / 8 * kBits);
    std::uint16_t repack[64] = {}, values[64] = {};
    for (std::uint32_t e = 0; e < 16; ++e) {
      for (std::uint32_t plane = 0; plane < 4; ++plane) repack[hexagon::table_place(plane, e)] = hexagon::repack_entry(plane, e);
      const int value = static_cast<int>(e);
      values[hexagon::table_place(0, e)] = float_to_half(
          static_cast<float>(kZeros == Zeros::signs ? 2 * value - 1 : value - static_cast<int>(kZeros == Zeros::same ? zero : 0)));
    }
    const auto tables = vectors(reinterpret_cast<const std::byte*>(repack), 1),
               codes = vectors(reinterpret_cast<const std::byte*>(values), 1);
    std::vector<Vector> out(std::size_t{4} * p.columns / 2);
    hexagon::lut_dequantise<I, kBits, kGroup, kZeros>(planes.data(), zero_fields(p, zeros), scales.data(), tables[0], codes[0], p.blocks,
                                                      out.data());
    for (std::uint32_t row = 0; row < kLutPanelRows; ++row) {
      for (std::uint32_t column = 0; column < p.columns; ++column) {
        const std::uint32_t tile = row / kTile * (p.columns / kTile) + column / kTile, place = tile_place(column % kTile, row % kTile);
        const double exact = p.code(row, column) * p.scale(row, column / kGroup);
        ASSERT_NEAR(I::hf(out[tile * 16 + place / 64], place % 64), exact, std::abs(exact) * kHalfStep + kSubnormal)
            << kBits << " " << kGroup << ": " << row << " " << column;
      }
    }
  }
};

using Models = testing::Types<QfloatModel<QfloatRounding::nearest>, QfloatModel<QfloatRounding::down>>;
TYPED_TEST_SUITE(LutStages, Models);

TYPED_TEST(LutStages, one_scale_per_row_has_the_bits_of_scales_that_are_repeated) {
  this->template once_and_repeated<1, Zeros::signs>();
  this->template once_and_repeated<2, Zeros::same>();
  this->template once_and_repeated<4, Zeros::same>();
}

TYPED_TEST(LutStages, finalize_sums_blocks_within_its_bound) {
  for (const std::uint32_t group : {32u, 128u}) {
    this->template finalize<Zeros::signs>({1, group, 0, Zeros::signs});
    for (const std::uint32_t bits : {1u, 2u, 4u}) {
      this->template finalize<Zeros::same>({bits, group, 1u << (bits - 1), Zeros::same});
      this->template finalize<Zeros::of_blocks>({bits, group, 0, Zeros::of_blocks});
    }
  }
}

TYPED_TEST(LutStages, finalize_of_rounded_tables_holds_its_bound) {
  for (const std::uint32_t group : {32u, 128u}) {
    this->template finalize_rounded<Zeros::signs>({1, group, 0, Zeros::signs});
    for (const std::uint32_t bits : {2u, 4u}) {
      this->template finalize_rounded<Zeros::same>({bits, group, 1u << (bits - 1), Zeros::same});
      this->template finalize_rounded<Zeros::of_blocks>({bits, group, 0, Zeros::of_blocks});
    }
  }
}

TYPED_TEST(LutStages, planes_become_tiles_of_scaled_weights) {
  this->template dequantise<1, 32, Zeros::signs>(0);
  this->template dequantise<2, 32, Zeros::of_blocks>(0);
  this->template dequantise<3, 32, Zeros::same>(4);
  this->template dequantise<4, 64, Zeros::of_blocks>(0);
}

// Ordinary groups of 32 in tiles, as the worker's strips have them.
TYPED_TEST(LutStages, ordinary_groups_become_tiles) {
  using I = TypeParam;
  Rng rng(5);
  constexpr std::uint32_t kTiles = 3;
  std::vector<std::uint8_t> codes = draw_codes(rng, kTiles * hexagon::kTileElements, 4);
  std::vector<typename I::Vector> in(kTiles * 4), scales(kTiles), out(kTiles * 16), table(1);
  for (std::uint32_t v = 0; v < in.size(); ++v) pack_super_group(&codes[v * 256], reinterpret_cast<std::byte*>(in[v].byte));
  std::vector<std::uint16_t> drawn(kTiles * kTile);
  for (std::uint32_t i = 0; i < drawn.size(); ++i) {
    drawn[i] = float_to_half(static_cast<float>(rng.below(2000) + 1) * 0x1p-14f);
    for (std::uint32_t twice = 0; twice < 2; ++twice) std::memcpy(scales[i / kTile].byte + (2 * (i % kTile) + twice) * 2, &drawn[i], 2);
  }
  const auto values = lut::code_table(lut::kQ4Values);
  for (std::uint32_t e = 0; e < 16; ++e) std::memcpy(table[0].byte + 2 * hexagon::table_place(0, e), &values[e], 2);
  hexagon::dequantise_columns_q4<I>(in.data(), scales.data(), table[0], kTiles, out.data());
  for (std::uint32_t t = 0; t < kTiles; ++t) {
    for (std::uint32_t k = 0; k < kTile; ++k) {
      for (std::uint32_t n = 0; n < kTile; ++n) {
        const std::uint32_t place = tile_place(k, n);
        const double exact = (codes[t * hexagon::kTileElements + place] - 8.0) * static_cast<double>(half_to_float(drawn[t * kTile + n]));
        ASSERT_NEAR(I::hf(out[t * 16 + place / 64], place % 64), exact, std::abs(exact) * kHalfStep + kSubnormal)
            << t << " " << k << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace vitro::test
