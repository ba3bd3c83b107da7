// The unified tiling of T-MAN 4.1: one layout of weights that serves dequantisation for the matrix unit (prefill) and look-ups on
// the vector unit (decode), searched under the limits of registers and on-chip memory. The Hexagon's panels are packed in it, the worker's
// loops run by it, and the prices of the simulated NPU name it (docs/design/lut-kernels.md).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/units.hpp"

namespace vitro::lut {

// What bounds a tile. Defaults are V75's (T-MAN 4.1 and 5, TTS-NPU 3.1.2).
struct TilingLimits {
  std::uint32_t vector_bytes = 128, registers = 32;
  Bytes tcm = 8 * MiB;
  Bytes reserved = 64 * KiB;                        // of TCM: the exp table
  std::uint32_t threads = 4;                        // that work on tiles of their own
  std::uint32_t buffers = 2;                        // of each stage of the pipeline, so that stages overlap
  std::uint32_t mma = 32;                           // rows, depth and columns of the matrix unit's tile
  std::uint32_t activation_group = 256;             // columns that share a scale of activations: a K tile may not cross it
  std::uint32_t max_rows = 4096, max_tokens = 256;  // of a tile: no larger one is tried
  std::uint32_t decode_rows = 1;                    // activation rows of a decode step that a look-up may serve at once
};

struct LowBitFormat {
  std::uint32_t bits = 4;    // 1 to 4
  std::uint32_t group = 64;  // columns that share a scale
};

// A look-up instruction: `entries` of `entry_bits`, and an index of 8 bits per look-up.
struct LookUpInstruction {
  std::string_view name;
  std::uint32_t entries, entry_bits;
};
inline constexpr LookUpInstruction kVlut16{"VLUT16", 16, 16}, kVlut32{"VLUT32", 32, 8};

// Multiply-adds that one instruction stands for: values found, times the columns that an index covers (T-MAN Table 1).
std::uint32_t equivalent_madds(const TilingLimits& limits, LookUpInstruction look_up, std::uint32_t value_bits);

// The same of the kernels here: tables of 16 sums (four columns) whichever instruction finds them, since those of 32 sums cover five
// columns, which divide no block; and of the values that an entry has room for those that belong to one of `decode_rows`.
std::uint32_t kernel_madds(const TilingLimits& limits, LookUpInstruction look_up, std::uint32_t value_bits);

struct Tiling {
  LookUpInstruction look_up = kVlut16;
  std::uint32_t table_registers = 0;                     // K_lut: how many registers hold tables
  std::uint32_t other_registers = 0;                     // sums, indices, results of a look-up
  std::uint32_t rows = 0, columns = 0;                   // M and K of a thread's tile, the same in prefill and decode
  std::uint32_t tokens = 0;                              // N of a tile in prefill
  std::uint32_t decode_row_steps = 0;                    // vectors of rows that reuse the tables in registers
  std::uint32_t mma_row_steps = 0, mma_depth_steps = 0;  // tiles of the matrix unit
  Bytes weights = 0, dequantised = 0, activations = 0, results = 0, spill = 0;  // one buffer of one thread; spill: sums in decode
  Bytes tcm = 0;                                                                // all threads, buffers and what is reserved
};

// Prefers more tables in registers, then more rows, then more tokens (T-MAN's heuristics), and of the instructions the one with more
// kernel_madds(); of equal ones vlut32, beside which a packet has room for the shift of the next indices. None when not even the smallest
// tile fits.
// value_bits: of a table's entries, 8 or 16. Throws ConfigError on a format that has no bit planes or no whole groups in a tile.
std::optional<Tiling> search_tiling(const TilingLimits& limits, LowBitFormat format, std::uint32_t value_bits = 16);

// Rows of a tile of a matrix of `rows`: the tiling's, or less, so that threads have as many rows each as whole vectors allow.
std::uint32_t even_rows(const TilingLimits& limits, const Tiling& tiling, std::uint32_t rows);

std::string describe(const Tiling& tiling);

}  // namespace vitro::lut
