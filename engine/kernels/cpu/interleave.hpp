// Rows in file order, made into a group of 16 of a tiled layout (engine/quant/tiles.hpp).
#pragma once
#include <cstddef>

#include "engine/ops/code_form.hpp"

namespace vitro::cpu {

// A row of blocks in file order: its quants and its scales.
struct BlockRow {
  const std::byte *quants = nullptr, *scales = nullptr;
};
// How far each is from block to block.
struct BlockSteps {
  std::size_t quant_bytes, quant_step, scale_step;
};

// Blocks of a scale and bytes, into Layout::tiled: 4-byte units of each row go to that row's lane. The same place in the rows
// `next` is requested from memory meanwhile. Both arrays have kTileRows rows; 32 columns a block.
void interleave(const BlockRow* rows, const BlockRow* next, BlockSteps steps, std::size_t blocks, std::byte* tile);

// Blocks of K-quants, into Layout::tiled. Of the rows, `scales` is where each begins.
void interleave_k(Format format, const BlockRow* rows, const BlockRow* next, std::size_t blocks, std::byte* tile);

// Blocks of a group format of eight bits, into Layout::tiled; of fewer, into Layout::lut, with the lead of the tiled one where that differs
// (a row's zero point). Of the rows, `scales` is where each begins.
void interleave_bytes(const BlockRow* rows, const BlockRow* next, const CodeForm& form, std::size_t blocks, std::byte* tile);
void interleave_planes(const BlockRow* rows, const BlockRow* next, const CodeForm& form, std::size_t blocks, std::byte* tile);

// Rows of w4_outliers, into Layout::tiled. Of the rows, `scales` is where each begins.
void interleave_outliers(const BlockRow* rows, const BlockRow* next, std::size_t columns, std::byte* tile);

}  // namespace vitro::cpu
