// Dequantisation and exp by table look-up: HVX code against the scalar meaning, to the bit.
#include <cmath>

#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/float16.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using Halves = std::vector<std::uint16_t>;

struct Nibbles {
  std::vector<std::uint8_t> codes;
  std::vector<std::byte> packed;
};

Nibbles draw_nibbles(Rng& rng, std::uint32_t n) {
  Nibbles drawn{draw_codes(rng, n, 4), std::vector<std::byte>(n / 2)};
  for (std::uint32_t i = 0; i < n; i += 256) hexagon::pack_super_group(&drawn.codes[i], &drawn.packed[i / 2]);
  return drawn;
}

// A table of 16 as a vector of look-up tables.
Halves in_vector(const Halves& table) {
  Halves vector(64);
  for (std::uint32_t e = 0; e < 16; ++e) vector[hexagon::table_place(0, e)] = table[e];
  return vector;
}

TEST(HexagonTables, dequantise_gives_values_and_scales_in_order) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(1);
  constexpr std::uint32_t kWeights = 4096;
  // Other 4-bit formats are other tables: these are codes of FP4 (E2M1).
  const float fp4[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (const Halves& table : {lut::code_table(lut::kQ4Values), lut::code_table(fp4)}) {
    const Nibbles w = draw_nibbles(rng, kWeights);
    Halves scales(kWeights / 32), placed(kWeights / 32);
    for (std::uint32_t g = 0; g < scales.size(); ++g) {
      scales[g] = static_cast<std::uint16_t>(rng.below(0x7c00));
      placed[g / 64 * 64 + hexagon::super_group_scale(g % 64)] = scales[g];
    }
    const auto out = worker.in(0, w.packed)
                         .in(1, placed)
                         .in(2, in_vector(table))
                         .run<std::uint16_t>(hexagon_op(Kind::dequantise, kWeights), 2 * kWeights);
    for (std::uint32_t i = 0; i < kWeights; ++i) {
      ASSERT_EQ(out[i], table[w.codes[i]]) << i;
      ASSERT_EQ(out[kWeights + i], scales[i / 32]) << i;
    }
  }
}

TEST(HexagonTables, a_fused_table_needs_no_arithmetic) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(2);
  constexpr std::uint32_t kWeights = 2048, kGroups = kWeights / 128;
  const Nibbles w = draw_nibbles(rng, kWeights);
  Halves tables(kGroups * 16), placed(kGroups * 16);
  for (std::uint32_t g = 0; g < kGroups; ++g) {
    const float scale = static_cast<float>(rng.below(1000) + 1) * 0x1p-12f, zero = static_cast<float>(rng.below(16));
    for (std::uint32_t e = 0; e < 16; ++e) {
      tables[g * 16 + e] = float_to_half(scale * (static_cast<float>(e) - zero));
      placed[g / 4 * 64 + hexagon::table_place(g % 4, e)] = tables[g * 16 + e];
    }
  }
  const auto out = worker.in(0, w.packed).in(1, placed).run<std::uint16_t>(hexagon_op(Kind::dequantise_fused, kWeights), kWeights);
  for (std::uint32_t i = 0; i < kWeights; ++i) ASSERT_EQ(out[i], tables[i / 128 * 16 + w.codes[i]]) << i;
}

TEST(HexagonTables, the_ablations_do_what_they_are_compared_for) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(3);
  constexpr std::uint32_t kWeights = 4096;
  const Nibbles w = draw_nibbles(rng, kWeights);

  const auto unpacked = worker.in(0, w.packed).run<std::int16_t>(hexagon_op(Kind::unpack, kWeights), kWeights);
  for (std::uint32_t i = 0; i < kWeights; ++i) ASSERT_EQ(unpacked[i], w.codes[i] - 8) << i;

  EXPECT_EQ(worker.in(0, w.packed).run<std::byte>(hexagon_op(Kind::copy, kWeights), kWeights / 2), w.packed);

  // To the places of an HMX tile of 32 x 32 (halfword (r / 2) * 64 + 2 c + r % 2), from columns that lie one after the other.
  const Halves table = lut::code_table(lut::kQ4Values);
  Halves offsets(kWeights);
  for (std::uint32_t i = 0; i < kWeights; ++i) {
    const std::uint32_t tile = i / 1024, column = i % 1024 / 32, row = i % 32;
    offsets[i] = static_cast<std::uint16_t>(2 * (tile * 1024 + row / 2 * 64 + 2 * column + row % 2));
  }
  const auto tiles =
      worker.in(0, w.packed).in(1, offsets).in(2, in_vector(table)).run<std::uint16_t>(hexagon_op(Kind::scatter, kWeights), kWeights);
  for (std::uint32_t i = 0; i < kWeights; ++i) ASSERT_EQ(tiles[offsets[i] / 2], table[w.codes[i]]) << i;
}

TEST(HexagonTables, exp_is_a_gather_of_the_table) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  const Halves table = lut::exp2_table();
  Halves x;
  for (std::uint32_t bits = 0x8000; bits < 0x10000; ++bits) x.push_back(static_cast<std::uint16_t>(bits));  // every x <= 0
  const auto y =
      worker.in(0, x).in(1, table).run<std::uint16_t>(hexagon_op(Kind::exp_table, static_cast<std::uint32_t>(x.size())), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], table[x[i] & 0x7fff]) << i;
}

}  // namespace
}  // namespace vitro::test
