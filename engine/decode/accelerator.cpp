#include "engine/decode/accelerator.hpp"

#include <algorithm>

namespace vitro {

const Accelerator::Split& Accelerator::split(std::uint32_t rows) const {
  const auto found = std::find_if(splits.begin(), splits.end(), [rows](const Split& split) { return rows <= split.rows; });
  return found == splits.end() ? splits.back() : *found;
}

Shares Accelerator::shares(std::size_t units, BlockKind kind, std::uint32_t rows, bool heads) const {
  if (unit == nullptr) return Shares(units, 1.0);
  const Split& split = this->split(rows);
  const double own = kind == BlockKind::attention ? (heads ? split.heads.value_or(split.attention) : split.attention)
                     : kind == BlockKind::ffn     ? split.ffn
                     : kind == BlockKind::head    ? split.head
                                                  : 0;
  Shares shares(units, (1 - own) / static_cast<double>(units - 1));
  shares.back() = own;
  return shares;
}

}  // namespace vitro
