#include "engine/quant/tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro {
namespace {

std::vector<std::byte> random_bytes(std::size_t n) {
  Rng rng(n);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.below(256));
  return bytes;
}

// Where the format promises one scale per row, there is one; zero points are codes.
std::vector<std::byte> random_rows(Format format, std::size_t columns) {
  const std::size_t row = row_bytes(format, columns), block = block_bytes(format);
  std::vector<std::byte> rows = random_bytes(kTileRows * row);
  for (std::size_t at = 0; format.is_group() && at < rows.size(); at += block) {
    if (format.zero_point) rows[at + 2] &= static_cast<std::byte>((1 << format.bits) - 1);
    if (format.row_scale) std::copy_n(&rows[at / row * row], format.head, &rows[at]);
  }
  return rows;
}

TEST(Tiles, q8_0_bytes_lie_where_the_layout_says) {
  constexpr std::size_t kColumns = 96, kRow = 3 * 34;
  const auto rows = random_bytes(kTileRows * kRow);
  std::vector<std::byte> tile(rows.size());
  pack_tile(Format::q8_0, kColumns, rows.data(), tile.data());
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::size_t r = 0; r < 16; ++r) {
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(tile[544 * b + 2 * r + i], rows[r * kRow + 34 * b + i]);
      for (std::size_t k = 0; k < 32; ++k) EXPECT_EQ(tile[544 * b + 32 + k / 4 * 64 + r * 4 + k % 4], rows[r * kRow + 34 * b + 2 + k]);
    }
  }
}

TEST(Tiles, q4_0_bytes_lie_where_the_layout_says) {
  constexpr std::size_t kColumns = 64, kRow = 2 * 18;
  const auto rows = random_bytes(kTileRows * kRow);
  std::vector<std::byte> tile(rows.size());
  pack_tile(Format::q4_0, kColumns, rows.data(), tile.data());
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t r = 0; r < 16; ++r) {
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(tile[288 * b + 2 * r + i], rows[r * kRow + 18 * b + i]);
      for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(tile[288 * b + 32 + i / 4 * 64 + r * 4 + i % 4], rows[r * kRow + 18 * b + 2 + i]);
    }
  }
}

TEST(Tiles, unpacking_undoes_packing) {
  for (const Layout layout : {Layout::tiled, Layout::lut}) {
    for (const Format format : formats_with(layout)) {
      const auto rows = random_rows(format, 256);
      std::vector<std::byte> tile(kTileRows * row_bytes(format, 256, layout)), back(rows.size());
      pack_tile(format, 256, rows.data(), tile.data(), layout);
      EXPECT_NE(tile, rows);
      unpack_tile(format, 256, tile.data(), back.data(), layout);
      EXPECT_EQ(back, rows) << to_string(format) << " " << to_string(layout);
    }
  }
}

// A zero point takes the bits of a code, or four in place of three; what a row's last byte has left over is all that is lost.
TEST(Tiles, zero_points_take_the_bits_of_codes) {
  for (const Layout layout : {Layout::tiled, Layout::lut}) {
    const auto row = [&](Format format, std::size_t columns) { return row_bytes(format, columns, layout); };
    EXPECT_EQ(row(Format::w(2, 64, 'z'), 4096), 4096u * 2 / 8 + 64 * 2 + 64 * 2 / 8);
    EXPECT_EQ(row(Format::w(4, 32, 'z'), 4096), 4096u * 4 / 8 + 128 * 2 + 128 * 4 / 8);
    EXPECT_EQ(row(Format::w(3, 128, 'z'), 4096), 4096u * 3 / 8 + 32 * 2 + 32 * 4 / 8);
    EXPECT_EQ(row(Format::w(1, 32, 'z'), 32), 4u + 2 + 1);
    EXPECT_EQ(row(Format::w(2, 128, 'z'), 640), 640u * 2 / 8 + 5 * 2 + 2);
  }
}

// Codes of eight bits lie as q8_0's; a row's scale and zero point stand before its blocks.
TEST(Tiles, bytes_and_zero_points_of_rows_lie_where_the_layout_says) {
  for (const Format format : {Format::w(8, 64, 'z'), Format::w(8, 32, "zr"), Format::w(4, 64, "zr")}) {
    constexpr std::size_t kBlocks = 3;
    const std::size_t group = format.block, columns = kBlocks * group, row = row_bytes(format, columns), bits = format.bits;
    const std::size_t before = format.row_scale ? 32 + 16 : kBlocks * 16, head = format.row_scale ? 0 : 32, block = head + 2 * bits * group;
    const auto rows = random_rows(format, columns);
    std::vector<std::byte> tile(before + kBlocks * block);
    ASSERT_EQ(tile.size(), kTileRows * row_bytes(format, columns, Layout::tiled)) << to_string(format);
    pack_tile(format, columns, rows.data(), tile.data());
    for (std::size_t r = 0; r < kTileRows; ++r) {
      for (std::size_t b = 0; b < kBlocks; ++b) {
        const std::byte* in_file = &rows[r * row + b * block_bytes(format)];
        const std::size_t scale = format.row_scale ? 0 : before + b * block, zero = format.row_scale ? 32 : b * 16;
        for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(tile[scale + 2 * r + i], in_file[i]);
        EXPECT_EQ(tile[zero + r], in_file[2]) << to_string(format);
        std::vector<std::uint8_t> codes(group);
        unpack_codes(format, in_file, group, codes.data());
        for (std::size_t c = 0; c < group; ++c) {
          const std::size_t lines = before + b * block + head + c / 32 * bits * 64, quad = c % 32 / 4;
          const auto byte = std::to_integer<unsigned>(tile[lines + quad % bits * 64 + 4 * r + c % 4]);
          const unsigned expected = bits == 8 ? codes[c] ^ 0x80u : codes[c];
          ASSERT_EQ(bits == 8 ? byte : byte >> quad / 4 * 4 & 15, expected) << to_string(format) << " column " << c;
          if (bits == 8) {
            ASSERT_EQ(in_file[3 + c], static_cast<std::byte>(expected));
          }
        }
      }
    }
  }
}

unsigned bit(std::byte b, std::size_t i) { return std::to_integer<unsigned>(b) >> i & 1; }

// Each code, scale and zero point stands where the header says, in both layouts.
TEST(Tiles, codes_lie_where_the_layouts_say) {
  constexpr std::size_t kBlocks = 5;
  for (const Format format : formats_with(Layout::lut)) {
    const std::size_t group = block_elements(format), columns = kBlocks * group, row = row_bytes(format, columns), bits = format.bits;
    const bool once = format.row_scale;
    const std::size_t zero_bits = format.zero_point ? zero_field_bits(format.bits) : 0;
    const std::size_t before = once ? 32 : (kBlocks * zero_bits + 7) / 8 * 16, head = once ? 0 : 32;
    const std::size_t block = head + group * bits * 2;
    const auto rows = random_rows(format, columns);
    std::vector<std::byte> tiled(before + kBlocks * block), lut(tiled.size());
    ASSERT_EQ(tiled.size(), kTileRows * row_bytes(format, columns, Layout::tiled)) << to_string(format);
    pack_tile(format, columns, rows.data(), tiled.data(), Layout::tiled);
    pack_tile(format, columns, rows.data(), lut.data(), Layout::lut);
    for (std::size_t r = 0; r < kTileRows; ++r) {
      std::vector<std::uint8_t> codes(columns);
      unpack_codes(format, &rows[r * row], columns, codes.data());
      for (std::size_t b = 0; b < kBlocks; ++b) {
        const std::byte* in_file = &rows[r * row + b * block_bytes(format)];
        for (const auto& tile : {tiled, lut}) {
          for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(tile[(once ? 0 : before + b * block) + 2 * r + i], in_file[i]);
          for (std::size_t i = 0; i < zero_bits; ++i) {
            const std::size_t at = b * zero_bits + i;
            EXPECT_EQ(bit(tile[at / 8 * 16 + r], at % 8), bit(in_file[2], i)) << to_string(format);
          }
        }
        for (std::size_t c = 0; c < group; ++c) {
          const std::size_t chunk = before + b * block + head + c / 32 * bits * 64, quad = c % 32 / 4;
          for (std::size_t i = 0; i < bits; ++i) {
            const unsigned expected = codes[b * group + c] >> i & 1u;
            ASSERT_EQ(bit(lut[chunk + 64 * i + c % 32 / 8 * 16 + r], c % 8), expected) << to_string(format);
            const std::size_t width = bits != 3 ? bits : i < 2 ? 2 : 1, lines = bits == 3 && i == 2 ? 128 : 0;
            const std::size_t in_field = bits == 3 && i == 2 ? 0 : i;
            ASSERT_EQ(bit(tiled[chunk + lines + quad % width * 64 + 4 * r + c % 4], quad / width * width + in_field), expected)
                << to_string(format);
          }
        }
      }
    }
  }
}

TEST(Tiles, only_block_formats_with_whole_groups_have_tiles) {
  EXPECT_TRUE(can_tile(Format::q4_0, 32));
  EXPECT_FALSE(can_tile(Format::q4_0, 24));
  EXPECT_FALSE(can_tile(Format::q4_0, 0));
  EXPECT_FALSE(can_tile(Format::f16, 16));
  EXPECT_FALSE(can_lay(Layout::lut, Format::q8_0, 16));
  EXPECT_FALSE(can_lay(Layout::lut, Format::w(2, 64), 24));
  EXPECT_FALSE(can_tile(Format::nf4, 16));
  EXPECT_TRUE(can_tile(Format::w(8, 64, 'z'), 16));
  EXPECT_FALSE(can_lay(Layout::lut, Format::w(8, 64, 'z'), 16));
  EXPECT_FALSE(can_lay(Layout::lut, Format::w(4, 64, "zr"), 16));
  EXPECT_TRUE(can_tile(Format::q6_k, 256));
  EXPECT_TRUE(can_tile(Format::q5_k, 256));
}

}  // namespace
}  // namespace vitro
