// Rows of a pool in which a mixture's rows are laid out by expert.
#pragma once
#include <algorithm>

#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Graphs do not ask whose rows they compute: only how many.
inline Batch rows_for_nobody(std::uint32_t count) {
  std::vector<SeqPos> rows(count);
  for (std::uint32_t i = 0; i < count; ++i) rows[i].position = i;
  return std::make_shared<const std::vector<SeqPos>>(std::move(rows));
}

inline View part_of_pool(View view, std::uint32_t first, std::uint32_t count) {
  view.offset += view.format.block_bytes() * first * std::max(view.shape[1], 1u);
  view.shape[0] = count;
  return view;
}

// Rows of a matrix of which only the shape is known.
inline View without_memory(std::uint32_t rows, std::uint32_t width, Format format) {
  View view;
  view.shape = {rows, width, 0};
  view.format = format;
  return view;
}

}  // namespace vitro
