// Dequantisation and exp by table look-up: HVX code against the scalar meaning, to the bit.
#include <algorithm>
#include <cmath>

#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/layout_stages.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"
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
  for (std::uint32_t i = 0; i < n; i += 256) pack_super_group(&drawn.codes[i], &drawn.packed[i / 2]);
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
      placed[g / 64 * 64 + super_group_scale(g % 64)] = scales[g];
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

}

// Rows of q4_0 as a file has them, with room behind them for the last load. Scales of every size, subnormal ones among them.
std::vector<std::byte> q4_0_groups(Rng& rng, std::uint32_t groups) {
  std::vector<std::byte> blocks(std::size_t{groups} * hexagon::kQ4Block + hexagon::kVectorBytes);
  for (std::byte& b : blocks) b = static_cast<std::byte>(rng.below(256));
  for (std::uint32_t g = 0; g < groups; ++g) {
    const auto scale = static_cast<std::uint16_t>(rng.below(0x7c00) & (g % 8 == 0 ? 0x03ff : 0xffff));
    std::memcpy(&blocks[g * hexagon::kQ4Block], &scale, sizeof scale);
  }
  return blocks;
}

Halves values_of(const std::vector<std::byte>& blocks, std::uint32_t groups) {
  std::vector<float> exact(std::size_t{groups} * 32);
  dequantise_row(Format::q4_0, blocks.data(), exact.data(), exact.size());
  Halves halves(exact.size());
  std::ranges::transform(exact, halves.begin(), float_to_half);
  return halves;
}

// TTS-NPU 7.4's baseline reads the file's groups and sends each of their halfwords to its place in a tile: 32 of them in a scatter.
TEST(HexagonTables, ordinary_groups_are_scattered_into_tiles) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(5);
  constexpr std::uint32_t kRows = 64, kColumns = 96;
  const auto rows = q4_0_groups(rng, kRows * kColumns / 32);
  const Halves expected = values_of(rows, kRows * kColumns / 32);
  const auto tiles = worker.in(0, rows)
                         .in(1, in_vector(lut::code_table(lut::kQ4Values)))
                         .run<std::uint16_t>(hexagon_op(Kind::scatter, kRows, kColumns), kRows * kColumns);
  for (std::uint32_t n = 0; n < kRows; ++n) {
    for (std::uint32_t k = 0; k < kColumns; ++k) {
      const std::uint32_t tile = n / 32 * (kColumns / 32) + k / 32;
      ASSERT_EQ(tiles[tile * 1024 + hexagon::tile_place(k % 32, n % 32)], expected[n * kColumns + k]) << n << " " << k;
    }
  }
}

// Its "HMX layout": groups lie in the order of tiles, but each with its scale in front.
TEST(HexagonTables, groups_in_the_order_of_tiles_come_out_in_order) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(6);
  constexpr std::uint32_t kGroups = 64;
  const auto blocks = q4_0_groups(rng, kGroups);
  const auto out = worker.in(0, blocks)
                       .in(1, in_vector(lut::code_table(lut::kQ4Values)))
                       .run<std::uint16_t>(hexagon_op(Kind::uncoalesced, kGroups * 32), kGroups * 32);
  EXPECT_EQ(out, values_of(blocks, kGroups));
}

std::vector<std::uint8_t> random_bytes(Rng& rng, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(rng.below(256));
  return bytes;
}

// The code whose bits are bit `bit` of byte `byte` in the four planes of a trip of 1024 weights.
std::uint32_t code_in(const std::vector<std::uint8_t>& planes, std::uint32_t trip, std::uint32_t byte, std::uint32_t bit) {
  std::uint32_t code = 0;
  for (std::uint32_t plane = 0; plane < 4; ++plane) code |= (planes[trip * 512 + plane * 128 + byte] >> bit & 1u) << plane;
  return code;
}

// T-MAN's ConvertDQ: no table, but shifts, masks and float32.
TEST(HexagonTables, planes_are_converted_by_arithmetic) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(7);
  constexpr std::uint32_t kTrips = 3, kOfTrip = 1024, kLanes = 32;
  const std::vector<std::uint8_t> planes = random_bytes(rng, kTrips * kOfTrip / 2);
  std::vector<float> scales(kTrips * kLanes), zeros(kTrips * kLanes);
  for (std::uint32_t t = 0; t < kTrips; ++t) {
    std::fill_n(scales.begin() + t * kLanes, kLanes, static_cast<float>(rng.below(1000) + 1) * 0x1p-13f);
    std::fill_n(zeros.begin() + t * kLanes, kLanes, 0x1p23f + static_cast<float>(rng.below(16)));
  }
  const auto out = worker.in(0, planes).in(1, scales).in(2, zeros).run<std::uint16_t>(
      hexagon_op(Kind::convert_planes, kTrips * kOfTrip), kTrips * kOfTrip);
  for (std::uint32_t i = 0; i < kTrips * kOfTrip; ++i) {
    const std::uint32_t trip = i / kOfTrip, byte = i % kOfTrip / 8, bit = i % 8;
    const float value = (static_cast<float>(code_in(planes, trip, byte, bit)) - (zeros[trip * kLanes] - 0x1p23f)) * scales[trip * kLanes];
    ASSERT_EQ(out[trip * kOfTrip + hexagon::converted_place(byte, bit)], float_to_half(value)) << i;
  }
}

// Another public form of it: codes become fp16 by a bit pattern, and nothing is widened to words.
TEST(HexagonTables, planes_are_converted_by_arithmetic_in_halves) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(8);
  constexpr std::uint32_t kTrips = 3, kOfTrip = 1024, kLanes = 64;
  const std::vector<std::uint8_t> planes = random_bytes(rng, kTrips * kOfTrip / 2);
  Halves scales(kTrips * kLanes), zeros(kTrips * kLanes);
  for (std::uint32_t t = 0; t < kTrips; ++t) {
    std::fill_n(scales.begin() + t * kLanes, kLanes, float_to_half(static_cast<float>(rng.below(1000) + 1) * 0x1p-13f));
    std::fill_n(zeros.begin() + t * kLanes, kLanes, float_to_half(1024.0f + static_cast<float>(rng.below(16))));
  }
  const auto out = worker.in(0, planes).in(1, scales).in(2, zeros).run<std::uint16_t>(
      hexagon_op(Kind::convert_planes_in_halves, kTrips * kOfTrip), kTrips * kOfTrip);
  for (std::uint32_t i = 0; i < kTrips * kOfTrip; ++i) {
    const std::uint32_t trip = i / kOfTrip, byte = i % kOfTrip / 8, bit = i % 8;
    const float zero = half_to_float(zeros[trip * kLanes]) - 1024.0f;
    const float value = (static_cast<float>(code_in(planes, trip, byte, bit)) - zero) * half_to_float(scales[trip * kLanes]);
    ASSERT_EQ(out[trip * kOfTrip + bit * 128 + byte], float_to_half(value)) << i;
  }
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
