#include "engine/kernels/cpu/interleave.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/quant/blocks.hpp"
#include "engine/quant/k_tiles.hpp"
#include "engine/quant/outlier_rows.hpp"
#include "engine/quant/transpose.hpp"

namespace vitro::cpu {
namespace {

// What a row has once before its blocks; zero points of blocks are zeroed.
void write_lead(const BlockRow* rows, const CodeForm& form, std::size_t blocks, std::byte* tile) {
  std::memset(tile, 0, form.lead_bytes(blocks));
  for (std::size_t r = 0; form.row_scale && r < kTileRows; ++r) {
    std::memcpy(tile + 2 * r, rows[r].scales, 2);
    if (form.zero_point) tile[2 * kTileRows + r] = rows[r].scales[2];
  }
}

}  // namespace

void interleave(const BlockRow* rows, const BlockRow* next, BlockSteps steps, std::size_t blocks, std::byte* tile) {
  constexpr std::size_t kUnitBytes = 4, kLine = kTileRows * kUnitBytes;
  const bool apart = steps.quant_step == steps.quant_bytes;
  const std::size_t blocks_per_line = std::max<std::size_t>(1, 64 / steps.quant_step), scales_per_line = 64 / steps.scale_step;
  for (std::size_t b = 0; b < blocks; ++b, tile += kTileRows * (2 + steps.quant_bytes)) {
    if (b % blocks_per_line == 0) {
      for (std::size_t r = 0; r < kTileRows; ++r) __builtin_prefetch(next[r].quants + b * steps.quant_step, 0, 2);
    }
    if (apart && b % scales_per_line == 0) {
      for (std::size_t r = 0; r < kTileRows; ++r) __builtin_prefetch(next[r].scales + b * steps.scale_step, 0, 2);
    }
    for (std::size_t r = 0; r < kTileRows; ++r) std::memcpy(tile + 2 * r, rows[r].scales + b * steps.scale_step, 2);
    for (std::size_t at = 0; at < steps.quant_bytes; at += sizeof(Units)) {
      std::byte* lines = tile + 2 * kTileRows + at / kUnitBytes * kLine;
      for (std::size_t r = 0; r < kTileRows; r += 4) {
        Units unit[4];
        for (std::size_t i = 0; i < 4; ++i) std::memcpy(&unit[i], rows[r + i].quants + b * steps.quant_step + at, sizeof unit[i]);
        transpose(unit);
        for (std::size_t j = 0; j < 4; ++j) std::memcpy(lines + r * kUnitBytes + j * kLine, &unit[j], sizeof unit[j]);
      }
    }
  }
}

void interleave_k(Format format, const BlockRow* rows, const BlockRow* next, std::size_t blocks, std::byte* tile) {
  const std::size_t block = block_bytes(format);
  const std::byte* row[kTileRows];
  for (std::size_t r = 0; r < kTileRows; ++r) row[r] = rows[r].scales;
  for (std::size_t b = 0; b < blocks; ++b, tile += kTileRows * block) {
    for (std::size_t r = 0; r < kTileRows; ++r) {
      for (std::size_t line = 0; line < block; line += 64) __builtin_prefetch(next[r].scales + b * block + line, 0, 2);
    }
    pack_k_block(format, row, tile);
    for (const std::byte*& at : row) at += block;
  }
}

void interleave_bytes(const BlockRow* rows, const BlockRow* next, const CodeForm& form, std::size_t blocks, std::byte* tile) {
  const std::size_t head = form.zero_point ? 3 : 2, block = head + form.group;
  write_lead(rows, form, blocks, tile);
  std::byte* const zeros = tile;
  tile += form.lead_bytes(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const std::byte* from = rows[r].scales + b * block;
      for (std::size_t line = 0; line < block; line += 64) __builtin_prefetch(next[r].scales + b * block + line, 0, 2);
      if (!form.row_scale) std::memcpy(tile + 2 * r, from, 2);
      if (form.zero_point && !form.row_scale) zeros[b * kTileRows + r] = from[2];
    }
    tile += form.head_bytes();
    for (std::size_t at = 0; at < form.group; at += sizeof(Units), tile += sizeof(Units) * kTileRows) {
      for (std::size_t r = 0; r < kTileRows; r += 4) {
        Units unit[4];
        for (std::size_t i = 0; i < 4; ++i) std::memcpy(&unit[i], rows[r + i].scales + b * block + head + at, sizeof unit[i]);
        transpose(unit);
        for (std::size_t j = 0; j < 4; ++j) std::memcpy(tile + 4 * r + j * 64, &unit[j], sizeof unit[j]);
      }
    }
  }
}

void interleave_planes(const BlockRow* rows, const BlockRow* next, const CodeForm& form, std::size_t blocks, std::byte* tile) {
  const std::size_t head = form.zero_point ? 3 : 2, plane = form.group / 8, block = head + form.bits * plane;
  write_lead(rows, form, blocks, tile);
  std::byte* const zeros = tile;
  tile += form.lead_bytes(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t bit = b * form.zero_bits();
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const std::byte* from = rows[r].scales + b * block;
      __builtin_prefetch(next[r].scales + b * block, 0, 2);
      if (!form.row_scale) std::memcpy(tile + 2 * r, from, 2);
      if (form.zero_point && !form.row_scale) zeros[bit / 8 * kTileRows + r] |= from[2] << bit % 8;
    }
    tile += form.head_bytes();
    for (std::size_t c = 0; c < form.chunks(); ++c) {
      for (std::size_t i = 0; i < form.bits; ++i, tile += 64) {
        Units unit[4];  // four rows each, then byte k of all
        for (std::size_t r = 0; r < kTileRows; ++r) {
          std::uint32_t four;
          std::memcpy(&four, rows[r].scales + b * block + head + i * plane + 4 * c, sizeof four);
          unit[r / 4][r % 4] = four;
        }
        transpose_bytes(unit);
        std::memcpy(tile, unit, sizeof unit);
      }
    }
  }
}

void interleave_outliers(const BlockRow* rows, const BlockRow* next, std::size_t columns, std::byte* tile) {
  const OutlierRow row{columns};
  const auto side_by_side = [&](std::size_t begin, std::size_t end, std::size_t unit) {
    for (std::size_t at = begin; at < end; at += unit) {
      for (std::size_t r = 0; r < kTileRows; ++r, tile += unit) std::memcpy(tile, rows[r].scales + at, unit);
    }
  };
  for (std::size_t r = 0; r < kTileRows; ++r) {
    for (std::size_t line = 0; line < row.nibbles(); line += 64) __builtin_prefetch(next[r].scales + line, 0, 2);
  }
  side_by_side(0, row.values(), 2);
  side_by_side(row.values(), row.nibbles(), 1);
  for (std::size_t at = row.nibbles(); at < row.bytes(); at += sizeof(Units), tile += kTileRows * sizeof(Units)) {
    for (std::size_t r = 0; r < kTileRows; r += 4) {
      Units unit[4];
      for (std::size_t i = 0; i < 4; ++i) {
        std::memcpy(&unit[i], rows[r + i].scales + at, sizeof unit[i]);
        __builtin_prefetch(next[r + i].scales + at, 0, 2);
      }
      transpose(unit);
      for (std::size_t j = 0; j < 4; ++j) std::memcpy(tile + 4 * r + j * 64, &unit[j], sizeof unit[j]);
    }
  }
}

}  // namespace vitro::cpu
