// The weight rows of a call, wherever they stand, a few at a time.
#pragma once
#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/operands.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro::cpu {

// Up to kMost rows: their numbers in the matrix, where each begins, and where its scales do if they stand apart.
struct RowGroup {
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kDequantised = 8;  // of these, which live in scratch
  std::size_t count = 0;
  std::uint32_t ids[kMost];
  const std::byte* data[kMost];
  const Half* scales[kMost];

  template <class T>
  PlacedRows<T> rows(std::size_t columns) const {
    return {reinterpret_cast<const T* const*>(data), count, columns};
  }
};

// Calls use(group) for all rows of the first operand that the call names and wanted(row) agrees to, ascending. Formats for
// which `as_stored` is false are dequantised to f32 (in Scratch::a); so are strips.
template <class Wanted, class Use>
void for_each_row_group(const KernelSet& set, const KernelCall& call, bool as_stored, Wanted wanted, Use use) {
  const View& w = call.in[0];
  const std::size_t k = columns(w), most = as_stored ? RowGroup::kMost : RowGroup::kDequantised;
  const View* scales = scales_of(call);
  float* floats = as_stored ? nullptr : scratch<float>(Scratch::a, most * k);
  RowGroup group;
  const Bytes strip = w.layout == Layout::strips ? kStripRows * row_bytes(w.format, k, w.layout) : 0;
  constexpr std::uint32_t kNeighbours = RowGroup::kDequantised;
  Range ready;  // rows of a strip that are dequantised, from `floats` on
  const auto flush = [&] {
    if (group.count > 0) use(std::as_const(group));
    group.count = 0;
  };
  for_each_row(call, [&](std::uint32_t row, Bytes at) {
    if (!wanted(row)) return;
    const std::byte* data = w.data() + (strip > 0 ? row / kStripRows * strip : at);
    if (strip > 0 && call.rows == nullptr) {  // neighbours: several at once
      if (row >= ready.end()) {
        flush();
        ready = {row, kNeighbours - row % kNeighbours};
        dequantise_strip_rows(data, k, row % kStripRows, ready.count, floats);
      }
      data = reinterpret_cast<const std::byte*>(floats + (row - ready.first) * k);
    } else if (!as_stored) {
      float* copy = floats + group.count * k;
      if (strip > 0) {
        dequantise_strip_rows(data, k, row % kStripRows, 1, copy);
      } else if (scales != nullptr) {
        set.dequantise_nibbles(data, scales->data() + row * scale_row_bytes(w), copy, k);
      } else {
        set.dequantise(w.format, data, copy, k);
      }
      data = reinterpret_cast<const std::byte*>(copy);
    }
    group.ids[group.count] = row;
    group.data[group.count] = data;
    if (scales != nullptr) group.scales[group.count] = scales->as<Half>() + row * (k / kBlock);
    if (++group.count == most) flush();
  });
  flush();
}

}  // namespace vitro::cpu
