// Rows of a matrix as Layout::rows has them, whatever layout it lies in: for those who lay weights out anew, or read them row by row.
#pragma once
#include <vector>

#include "engine/ops/operands.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {

// One group of a tiled layout is put back at a time, so rows are best asked for in ascending order. Outlives no byte of the matrix.
class FileRows {
 public:
  explicit FileRows(const View& matrix)
      : matrix_(matrix),
        row_(row_bytes(matrix.format, columns(matrix))),
        group_rows_(group_rows(matrix.layout)),
        group_bytes_(group_rows_ * row_bytes(matrix.format, columns(matrix), matrix.layout)) {}

  // Valid until the next call.
  const std::byte* operator[](std::uint32_t row) {
    if (matrix_.layout == Layout::rows) return matrix_.data() + row * row_;
    if (const std::uint32_t group = row / group_rows_; group != group_) {
      rows_.resize(group_rows_ * row_);
      unpack_tile(matrix_.format, columns(matrix_), matrix_.data() + group * group_bytes_, rows_.data(), matrix_.layout);
      group_ = group;
    }
    return rows_.data() + row % group_rows_ * row_;
  }

 private:
  const View& matrix_;
  Bytes row_;  // as Layout::rows has it
  std::uint32_t group_rows_;
  Bytes group_bytes_;  // in the matrix
  std::vector<std::byte> rows_;
  std::uint32_t group_ = ~0u;
};

}  // namespace vitro
