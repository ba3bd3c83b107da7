#include "engine/quant/hmx_groups.hpp"

#include <algorithm>
#include <array>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {

static_assert(kHmxGroupRows * kHmxGroupColumns == kBlock);

void round_to_hmx_groups(std::span<float> values, std::size_t columns) {
  VITRO_CHECK(columns > 0 && values.size() % columns == 0, "a matrix has whole rows");
  const std::size_t rows = values.size() / columns;
  std::array<float, kBlock> group;
  std::array<std::byte, 18> block;
  for (std::size_t row = 0; row < rows; row += kHmxGroupRows) {
    for (std::size_t column = 0; column < columns; column += kHmxGroupColumns) {
      const auto for_each = [&](auto f) {
        for (std::size_t r = row; r < std::min(row + kHmxGroupRows, rows); ++r) {
          for (std::size_t c = column; c < std::min(column + kHmxGroupColumns, columns); ++c) {
            f(values[r * columns + c], group[(r - row) * kHmxGroupColumns + c - column]);
          }
        }
      };
      group.fill(0);
      for_each([](float value, float& place) { place = value; });
      quantise_row(Format::q4_0, group.data(), block.data(), kBlock);
      dequantise_row(Format::q4_0, block.data(), group.data(), kBlock);
      for_each([](float& value, float place) { value = place; });
    }
  }
}

}  // namespace vitro
