#include "engine/quant/row_damage.hpp"

#include <fmt/format.h>

#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/outlier_rows.hpp"

namespace vitro {

std::optional<std::string> row_damage(Format format, const std::byte* bytes, std::size_t columns, std::uint64_t row) {
  if (!can_be_damaged(format)) return std::nullopt;
  if (format.has_outliers()) {
    const auto damage = outlier_damage(bytes, columns);
    return damage ? std::optional(fmt::format("damaged: row {}: {}", row, *damage)) : std::nullopt;
  }
  const auto bad = first_bad_block(format, bytes, columns);
  if (!bad) return std::nullopt;
  const BlockScale first = block_scale(format, bytes), other = block_scale(format, bytes + *bad * block_bytes(format));
  if (format.zero_point && !format.row_scale) {
    return fmt::format("damaged: block {} has the zero point {} (expected 0 to {}, the codes of {})", row * (columns / format.block) + *bad,
                       other.zero, (1u << format.bits) - 1, to_string(format));
  }
  if (first.zero != other.zero || *bad == 0) {
    return fmt::format("damaged: row {} begins with the zero point {} and its block {} has {} (expected one per row below {}, as {} has)",
                       row, first.zero, *bad, other.zero, 1u << format.bits, to_string(format));
  }
  return fmt::format("damaged: row {} begins with the scale {} and its block {} has {} (expected one per row, as {} has)", row, first.scale,
                     *bad, other.scale, to_string(format));
}

}  // namespace vitro
