#include "engine/kernels/hexagon/panels.hpp"

namespace vitro::hexagon {

bool can_pack(const View& weights) {
  const std::uint32_t k = columns(weights);
  const bool known = weights.format == Format::q8_0 || weights.format == Format::q4_0;
  return known && k % kBlockColumns == 0 && k > 0 && k <= kMostColumns;
}

std::uint32_t table_place(std::uint32_t table, std::uint32_t entry) { return table / 2 * 32 + 2 * entry + table % 2; }

}  // namespace vitro::hexagon
