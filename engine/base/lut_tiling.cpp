#include "engine/base/lut_tiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/base/check.hpp"

namespace vitro::lut {
namespace {

constexpr std::uint32_t kGroup = 4;  // columns whose bits make one index (T-MAC, T-MAN: g = 4)
constexpr std::uint32_t kIndexBits = 8, kHalfBytes = 2, kFloatBytes = 4;

// Columns that an index covers: a table of 2^g entries has all signed sums of g activations.
std::uint32_t group_columns(LookUpInstruction look_up) { return static_cast<std::uint32_t>(std::bit_width(look_up.entries)) - 1; }

// What an entry holds beside the value of another activation row is no other table. vlut32 has each table twice.
std::uint32_t columns_per_register(const TilingLimits& limits, LookUpInstruction look_up) {
  return limits.vector_bytes * 8 / (look_up.entries * look_up.entry_bits) * kGroup;
}

// What the loops keep beside tables, all of vectors of byte indices, so values of 16 bits are two vectors. Packed indices, shifted ones and
// what a look-up returns; and sums: 16-bit entries have those of each plane, since a table meets all planes before the next one, bytes one
// of 16 bits, of 32 bits where a block's parts are added up, and the weights of planes.
std::uint32_t other_registers(std::uint32_t bits, std::uint32_t value_bits) {
  const std::uint32_t found = value_bits / kIndexBits;
  return 2 + found + (value_bits > kIndexBits ? bits * found : 2 + 4 + bits);
}

// Fills in sizes; false when they do not fit.
bool fits(const TilingLimits& limits, LowBitFormat format, Tiling& t) {
  const Bytes cells = Bytes{t.rows} * t.columns;
  t.weights = cells * format.bits / 8 + cells / format.group * kHalfBytes;
  t.dequantised = cells * kHalfBytes;
  t.activations = Bytes{t.columns} * t.tokens * kHalfBytes;
  t.results = Bytes{t.rows} * t.tokens * kFloatBytes;
  t.spill = Bytes{t.rows} * kFloatBytes * (1 + t.columns / format.group);  // of rows over tiles, and of the tile's blocks before scales
  t.tcm = limits.reserved + limits.threads * (limits.buffers * (t.weights + t.dequantised + t.activations + t.results) + t.spill);
  return t.tcm <= limits.tcm;
}

}  // namespace

std::uint32_t equivalent_madds(const TilingLimits& limits, LookUpInstruction look_up, std::uint32_t value_bits) {
  const std::uint32_t indices = limits.vector_bytes * 8 / kIndexBits;
  return indices * look_up.entry_bits / value_bits * group_columns(look_up);
}

std::uint32_t kernel_madds(const TilingLimits& limits, LookUpInstruction look_up, std::uint32_t value_bits) {
  const std::uint32_t madds = limits.vector_bytes * 8 / kIndexBits * kGroup;
  if (look_up.entry_bits < value_bits) return madds * look_up.entry_bits / value_bits;  // a part of a value each
  return madds * std::min(look_up.entry_bits / value_bits, std::max(1u, limits.decode_rows));
}

std::optional<Tiling> search_tiling(const TilingLimits& limits, LowBitFormat format, std::uint32_t value_bits) {
  if (format.bits < 1 || format.bits > 4)
    throw ConfigError(fmt::format("a format of {} bits has no look-up kernel (expected 1 to 4 bits)", format.bits));
  if (format.group == 0 || limits.activation_group % format.group != 0) {
    throw ConfigError(
        fmt::format("a group size of {} does not divide the group size of the activations, {}", format.group, limits.activation_group));
  }
  Tiling best;
  best.look_up = kernel_madds(limits, kVlut16, value_bits) > kernel_madds(limits, kVlut32, value_bits) ? kVlut16 : kVlut32;
  best.other_registers = other_registers(format.bits, value_bits);
  const std::uint32_t per_register = columns_per_register(limits, best.look_up);
  if (per_register == 0 || best.other_registers >= limits.registers) return {};
  for (std::uint32_t tables = limits.registers - best.other_registers; tables > 0; --tables) {
    Tiling t = best;
    t.table_registers = tables;
    t.columns = tables * per_register;
    // Whole groups of weights, within one group of activations, and whole tiles of the matrix unit.
    if (t.columns % format.group != 0 || limits.activation_group % t.columns != 0 || t.columns % limits.mma != 0) continue;
    t.mma_depth_steps = t.columns / limits.mma;
    for (t.rows = limits.max_rows / limits.vector_bytes * limits.vector_bytes; t.rows > 0; t.rows -= limits.vector_bytes) {
      if (t.rows % limits.mma != 0) continue;
      t.decode_row_steps = t.rows / limits.vector_bytes;
      t.mma_row_steps = t.rows / limits.mma;
      for (t.tokens = limits.max_tokens / limits.mma * limits.mma; t.tokens > 0; t.tokens -= limits.mma) {
        if (fits(limits, format, t)) return t;
      }
    }
  }
  return {};
}

std::uint32_t even_rows(const TilingLimits& limits, const Tiling& tiling, std::uint32_t rows) {
  const auto parts = [](std::uint32_t n, std::uint32_t of) { return (n + of - 1) / of; };
  const std::uint32_t vectors = std::max(1u, parts(parts(rows, limits.vector_bytes), limits.threads));  // of a thread
  const std::uint32_t tiles = parts(vectors, tiling.decode_row_steps);
  return parts(vectors, tiles) * limits.vector_bytes;
}

std::string describe(const Tiling& t) {
  return fmt::format(
      "{}: {} registers of tables and {} others; tile of {} rows x {} columns, {} tokens in prefill\n"
      "decode: {} vectors of rows per table; prefill: {} x {} matrix tiles\n"
      "per thread and buffer: {} weights, {} dequantised, {} activations, {} results; {} spilled sums; {} of TCM in all",
      t.look_up.name, t.table_registers, t.other_registers, t.rows, t.columns, t.tokens, t.decode_row_steps, t.mma_row_steps,
      t.mma_depth_steps, format_bytes(t.weights), format_bytes(t.dequantised), format_bytes(t.activations), format_bytes(t.results),
      format_bytes(t.spill), format_bytes(t.tcm));
}

}  // namespace vitro::lut
