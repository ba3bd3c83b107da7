// Reading q8_0 and q4_0 matrices block by block, for those who lay them out anew.
#pragma once
#include <cstring>

#include "engine/kernels/hexagon/protocol.hpp"
#include "engine/kernels/operands.hpp"

namespace vitro::hexagon {

inline constexpr std::uint32_t kMostColumns = 32768;  // of the worker's scratch
inline constexpr std::uint32_t kScaleBytes = 2, kUnitBytes = 4;

// Blocks of a matrix of q8_0 or q4_0, whatever its layout: a scale and units of four bytes.
class Blocks {
 public:
  explicit Blocks(const View& view)
      : data_(view.data()),
        tiled_(view.layout == Layout::tiled),
        block_(block_bytes(view.format)),
        row_(row_bytes(view.format, columns(view))) {}

  // Codes of a row of q4_0, and its scales.
  void codes(std::uint32_t row, std::uint32_t columns, std::uint8_t* q, std::uint16_t* scales) const {
    for (std::uint32_t b = 0; b < columns / kBlockColumns; ++b, q += kBlockColumns) {
      std::memcpy(scales + b, scale(row, b), kScaleBytes);
      for (std::uint32_t c = 0; c < kBlockColumns / 2; ++c) {
        const auto both = std::to_integer<std::uint8_t>(unit(row, b, c / kUnitBytes)[c % kUnitBytes]);
        q[c] = both & 15;
        q[c + kBlockColumns / 2] = both >> 4;
      }
    }
  }

  std::uint32_t units() const { return static_cast<std::uint32_t>((block_ - kScaleBytes) / kUnitBytes); }
  const std::byte* scale(std::uint32_t row, std::uint32_t b) const {
    return tiled_ ? tile(row, b) + kScaleBytes * (row % kTileRows) : data_ + row * row_ + b * block_;
  }
  const std::byte* unit(std::uint32_t row, std::uint32_t b, std::uint32_t j) const {
    if (!tiled_) return data_ + row * row_ + b * block_ + kScaleBytes + j * kUnitBytes;
    return tile(row, b) + kTileRows * kScaleBytes + (j * kTileRows + row % kTileRows) * kUnitBytes;
  }

 private:
  const std::byte* tile(std::uint32_t row, std::uint32_t b) const {
    return data_ + row / kTileRows * (kTileRows * row_) + b * (kTileRows * block_);
  }

  const std::byte* data_;
  bool tiled_;
  Bytes block_, row_;
};

}  // namespace vitro::hexagon
