// The stages that a phone computes in qfloat, run on the software model: their error bounds hold however qfloat rounds.
#include "engine/kernels/hexagon/float_stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/kernels/hexagon/outlier_strips.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/hexagon/qfloat_model.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro::test {
namespace {

using hexagon::QfloatModel;
using hexagon::QfloatRounding;

constexpr double kHalfStep = 0x1p-10, kSubnormal = 0x1p-24;  // of a faithfully rounded fp16, relative and at the bottom
constexpr double kQ32Step = 0x1p-23;

template <class I>
class FloatStages : public testing::Test {
 protected:
  using Vector = typename I::Vector;

  static std::uint16_t draw_scale(Rng& rng) { return float_to_half(static_cast<float>(rng.below(2000) + 1) * 0x1p-14f); }

  // For super-group k of four: word 4 k + e / 1 of the scales' tables, as worker/table_kernels.cpp builds them.
  static std::vector<Vector> broadcast() {
    std::vector<Vector> indices(4);
    for (unsigned k = 0; k < 4; ++k) {
      for (unsigned i = 0; i < 128; ++i) indices[k].byte[i] = static_cast<unsigned char>(4 * k + 2 * (i % 2) + i / 64);
    }
    return indices;
  }

  static void expect_close(double got, double exact, std::size_t i) {
    ASSERT_NEAR(got, exact, std::abs(exact) * kHalfStep + kSubnormal) << i;
  }
};

using Models = testing::Types<QfloatModel<QfloatRounding::nearest>, QfloatModel<QfloatRounding::down>>;
TYPED_TEST_SUITE(FloatStages, Models);

// By table and by conversion: the same weights.
TYPED_TEST(FloatStages, four_bit_weights_get_their_scales) {
  using I = TypeParam;
  using Vector = typename I::Vector;
  Rng rng(1);
  constexpr std::uint32_t kVectors = 16, kWeights = kVectors * 256;
  std::vector<std::uint8_t> codes(kWeights);
  for (auto& code : codes) code = static_cast<std::uint8_t>(rng.below(16));
  std::vector<Vector> in(kVectors), scales(kVectors / 8), table(1), out(kVectors * 4), converted(kVectors * 4);
  std::vector<std::uint16_t> drawn(kWeights / 32);
  for (std::uint32_t v = 0; v < kVectors; ++v) pack_super_group(&codes[v * 256], reinterpret_cast<std::byte*>(in[v].byte));
  for (std::uint32_t g = 0; g < drawn.size(); ++g) {
    drawn[g] = this->draw_scale(rng);
    std::memcpy(scales[g / 64].byte + 2 * super_group_scale(g % 64), &drawn[g], 2);
  }
  const auto values = lut::code_table(lut::kQ4Values);
  for (std::uint32_t e = 0; e < 16; ++e) std::memcpy(table[0].byte + 2 * hexagon::table_place(0, e), &values[e], 2);
  const auto indices = this->broadcast();
  hexagon::dequantise_q4<I>(in.data(), scales.data(), indices.data(), table[0], kVectors, out.data());
  hexagon::convert_q4<I>(in.data(), scales.data(), indices.data(), kVectors, converted.data());
  for (std::uint32_t i = 0; i < kWeights; ++i) {
    const double exact = (codes[i] - 8.0) * static_cast<double>(half_to_float(drawn[i / 32]));
    this->expect_close(I::hf(out[i / 64], i % 64), exact, i);
    this->expect_close(I::hf(converted[i / 64], i % 64), exact, i);
    if (std::is_same_v<I, QfloatModel<QfloatRounding::nearest>>) {
      ASSERT_EQ(I::half(out[i / 64], i % 64) & 0x7fff, float_to_half(static_cast<float>(exact)) & 0x7fff) << i;
    }
  }
}

TYPED_TEST(FloatStages, eight_bit_weights_get_their_scales) {
  using I = TypeParam;
  using Vector = typename I::Vector;
  Rng rng(2);
  constexpr std::uint32_t kTiles = 3, kVectors = kTiles * 8, kWeights = kVectors * 128;
  std::vector<Vector> in(kVectors), scales(kTiles), out(kVectors * 2);
  std::vector<std::int8_t> q(kWeights);
  std::vector<std::uint16_t> drawn(kTiles * 32);  // of the tiles' columns
  for (std::uint32_t i = 0; i < kWeights; ++i) {
    q[i] = static_cast<std::int8_t>(static_cast<int>(rng.below(256)) - 128);
    in[i / 128].byte[2 * (i % 64) + i % 128 / 64] = static_cast<unsigned char>(q[i]);
  }
  for (std::uint32_t g = 0; g < drawn.size(); ++g) {
    drawn[g] = this->draw_scale(rng);
    for (const std::uint32_t twice : {0u, 1u}) std::memcpy(scales[g / 32].byte + 2 * (2 * (g % 32) + twice), &drawn[g], 2);
  }
  hexagon::dequantise_columns_q8<I>(in.data(), scales.data(), kTiles, out.data());
  for (std::uint32_t i = 0; i < kWeights; ++i) {
    const std::uint16_t scale = drawn[i / 1024 * 32 + i % 64 / 2];
    this->expect_close(I::hf(out[i / 64], i % 64), q[i] * static_cast<double>(half_to_float(scale)), i);
  }
}

// Outliers of a span of tiles, more than one vector and not whole ones: each gets its row's scale, and no other element changes.
TYPED_TEST(FloatStages, outliers_are_placed_with_the_scales_of_their_rows) {
  using I = TypeParam;
  using hexagon::kTile;
  Rng rng(12);
  constexpr std::uint32_t kOutliers = 151, kElements = hexagon::kSpanTiles * hexagon::kTileElements;
  constexpr std::uint16_t kUntouched = 0x1234;
  std::vector<std::uint16_t> tiles(kElements, kUntouched), scales(kTile), places(kOutliers + 64);
  std::vector<unsigned char> values(kOutliers + 128, 99);  // those behind the last one are read and not placed
  std::vector<double> exact(kElements);
  typename I::Vector twice;
  for (std::uint32_t r = 0; r < kTile; ++r) {
    scales[r] = this->draw_scale(rng);
    for (const std::uint32_t i : {0u, 1u}) std::memcpy(twice.byte + 2 * (2 * r + i), &scales[r], 2);
  }
  for (std::uint32_t j = 0; j < kOutliers; ++j) {  // one of each row after the other, all over the span
    const std::uint32_t row = j % kTile, depth = (j * 37) % kTile, tile = (j * 11) % hexagon::kSpanTiles;
    const int value = static_cast<int>(rng.below(255)) - 127;
    places[j] = static_cast<std::uint16_t>(tile * hexagon::kTileElements + hexagon::tile_place(depth, row));
    values[j] = static_cast<unsigned char>(value);
    tiles[places[j]] = 0;
    exact[places[j]] = value * static_cast<double>(half_to_float(scales[row]));
  }
  hexagon::place_outliers<I>(reinterpret_cast<const unsigned char*>(places.data()), values.data(), twice, kOutliers,
                             reinterpret_cast<std::uintptr_t>(tiles.data()));
  const auto last = places.begin() + kOutliers;
  const auto is_place = [&](std::uint32_t i) { return std::find(places.begin(), last, i) != last; };
  for (std::uint32_t i = 0; i < kElements; ++i) {
    if (is_place(i)) {
      this->expect_close(half_to_float(tiles[i]), exact[i], i);
    } else {
      ASSERT_EQ(tiles[i], kUntouched) << i;
    }
  }
}

// The int8 contract adds the same terms in the same order; each term is rounded twice here, each sum once. Four rows at a time, which begin
// where an earlier part of the depth ended.
TYPED_TEST(FloatStages, sums_of_blocks_are_scaled_within_their_bound) {
  using I = TypeParam;
  using Vector = typename I::Vector;
  Rng rng(4);
  constexpr std::uint32_t kBlocks = 16, kRows = 4, kPitch = 6, kScales = 20;  // rows of a block, and of which blocks there are more
  std::vector<Vector> sums(kBlocks * kPitch), scales(kBlocks), y(2 * kRows);
  std::vector<std::int32_t> x_scales(kRows * kScales);
  double exact[kRows][32] = {}, magnitude[kRows][32] = {};
  for (std::uint32_t r = 0; r < kRows; ++r) {
    for (std::uint32_t c = 0; c < 32; ++c) {
      const auto before = static_cast<float>(rng.normal());
      std::memcpy(y[2 * r].byte + 4 * c, &before, sizeof before);
      exact[r][c] = before;
      magnitude[r][c] = std::abs(before);
    }
  }
  for (std::uint32_t b = 0; b < kBlocks; ++b) {
    double dw[32];
    for (std::uint32_t c = 0; c < 32; ++c) {
      const std::uint16_t drawn = this->draw_scale(rng);
      dw[c] = static_cast<double>(half_to_float(drawn));
      for (const std::uint32_t twice : {0u, 1u}) std::memcpy(scales[b].byte + 2 * (2 * c + twice), &drawn, 2);
    }
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const float dx = static_cast<float>(rng.below(100000) + 1) * 0x1p-20f;
      std::memcpy(&x_scales[r * kScales + b], &dx, sizeof dx);
      for (std::uint32_t c = 0; c < 32; ++c) {
        const std::int32_t most = 32 * 128 * 127, sum = static_cast<std::int32_t>(rng.below(2u * most + 1)) - most;
        std::memcpy(sums[b * kPitch + r].byte + 4 * c, &sum, 4);
        exact[r][c] += sum * (dw[c] * static_cast<double>(dx));
        magnitude[r][c] += std::abs(sum * (dw[c] * static_cast<double>(dx)));
      }
    }
  }
  hexagon::scale_sums<I, kRows>(sums.data(), kPitch, scales.data(), x_scales.data(), kScales, kBlocks, y.data(), 2);
  constexpr double kRoundings = kBlocks + 3;
  for (std::uint32_t r = 0; r < kRows; ++r) {
    for (std::uint32_t c = 0; c < 32; ++c) {
      ASSERT_NEAR(I::sf(y[2 * r], c), exact[r][c], magnitude[r][c] * kRoundings * kQ32Step / (1 - kRoundings * kQ32Step)) << r << ", " << c;
    }
  }
}

// The quotient comes from Newton's steps, so a quant may differ from the contract's where that is within 1e-3 of half-way; rounding
// downwards, by up to one.
template <class I, std::uint32_t kBlock>
void check_quantised(double most_off) {
  using Vector = typename I::Vector;
  Rng rng(5);
  constexpr std::uint32_t kVectors = 12, kBlocks = 128 / kBlock;
  std::vector<Vector> x(4 * kVectors), quants(kVectors), scales(kVectors), sums(kVectors);
  std::vector<float> values(128 * kVectors);
  for (std::uint32_t b = 0; b < values.size() / kBlock; ++b) {
    const auto size = static_cast<float>(std::ldexp(1.0, static_cast<int>(rng.below(60)) - 30));
    for (std::uint32_t i = 0; i < kBlock; ++i) values[b * kBlock + i] = b == 3 ? 0 : static_cast<float>(rng.normal()) * size;
  }
  std::memcpy(x.data(), values.data(), values.size() * sizeof(float));
  hexagon::quantise_activations<I, kBlock>(x.data(), kVectors, quants.data(), scales.data(), sums.data());
  for (std::uint32_t b = 0; b < values.size() / kBlock; ++b) {
    double most = 0;
    for (std::uint32_t i = 0; i < kBlock; ++i) most = std::max(most, std::abs(static_cast<double>(values[b * kBlock + i])));
    std::int32_t sum = 0;
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      const std::uint32_t at = b * kBlock + i;
      const auto quant = static_cast<std::int8_t>(quants[at / 128].byte[at % 128]);
      const double exact = most == 0 ? 0 : static_cast<double>(values[at]) * 127 / most;
      ASSERT_NEAR(quant, exact, most_off) << at;
      sum += quant;
    }
    ASSERT_NEAR(I::sf(scales[b / kBlocks], hexagon::scale_word<kBlock>(b % kBlocks)), most / 127, most * 0x1p-21) << b;
    std::int32_t found = 0;
    std::memcpy(&found, sums[b / kBlocks].byte + b % kBlocks * kBlock, sizeof found);
    ASSERT_EQ(found, sum) << b;
  }
}

TYPED_TEST(FloatStages, activations_become_int8_with_the_scale_and_sum_of_their_block) {
  const double most_off = std::is_same_v<TypeParam, QfloatModel<QfloatRounding::nearest>> ? 0.501 : 1.001;
  check_quantised<TypeParam, 32>(most_off);
  check_quantised<TypeParam, 64>(most_off);
  check_quantised<TypeParam, 128>(most_off);
}

}  // namespace
}  // namespace vitro::test
