#include "engine/kernels/hexagon/panels.hpp"

#include <cstring>

#include "engine/kernels/common/file_rows.hpp"

namespace vitro::hexagon {
namespace {

std::uint32_t panels_of(std::uint32_t rows, std::uint32_t panel) { return (rows + panel - 1) / panel; }
Bytes scales_bytes(std::uint32_t columns) { return round_up(Bytes{columns} / kBlockColumns * kPanelRows * kScaleBytes, kVectorBytes); }

}  // namespace

bool can_pack(const View& weights) {
  const std::uint32_t k = columns(weights);
  const bool known = weights.format == Format::q8_0 || weights.format == Format::q4_0;
  return known && k % kBlockColumns == 0 && k > 0 && k <= kMostColumns;
}

Bytes panels_bytes(Format format, std::uint32_t rows, std::uint32_t columns) {
  const Bytes quants = Bytes{columns} * kPanelRows / (format == Format::q4_0 ? 2 : 1);
  return panels_of(rows, kPanelRows) * (scales_bytes(columns) + quants);
}

void pack_panels(const View& weights, Range rows, std::byte* out) {
  VITRO_CHECK(can_pack(weights), "a matrix that has no panels");
  FileRows in(weights);
  const std::uint32_t k = columns(weights), blocks = k / kBlockColumns;
  const auto block_size = static_cast<std::uint32_t>(block_bytes(weights.format)), units = (block_size - kScaleBytes) / kUnitBytes;
  const Bytes panel_bytes = panels_bytes(weights.format, 1, k);
  std::memset(out, 0, panels_bytes(weights.format, rows.count, k));
  for (std::uint32_t r = 0; r < rows.count; ++r) {
    std::byte* panel = out + r / kPanelRows * panel_bytes;
    const std::uint32_t lane = r % kPanelRows;
    const std::byte* block = in[rows.first + r];
    for (std::uint32_t b = 0; b < blocks; ++b, block += block_size) {
      std::memcpy(panel + (b * kPanelRows + lane) * kScaleBytes, block, kScaleBytes);
      std::byte* quants = panel + scales_bytes(k) + lane * kUnitBytes;
      for (std::uint32_t j = 0; j < units; ++j) {
        std::memcpy(quants + (b * units + j) * (kPanelRows * kUnitBytes), block + kScaleBytes + j * kUnitBytes, kUnitBytes);
      }
    }
  }
}

std::uint32_t table_place(std::uint32_t table, std::uint32_t entry) { return table / 2 * 32 + 2 * entry + table % 2; }

}  // namespace vitro::hexagon
