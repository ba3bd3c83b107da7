// Rows that their format can not have, as in a damaged file or one that a stranger made. Kernels index by what rows say: positions of
// outliers, and zero points in look-up tables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/tensor/format.hpp"

namespace vitro {

// False: any bytes are a row of this format.
constexpr bool can_be_damaged(Format format) { return format.zero_point || format.row_scale; }

// What is wrong with row `row` of a matrix, such as "damaged: row 3: outlier 0 is at column 64 (expected one below 64)". `bytes` has it as
// Layout::rows does.
std::optional<std::string> row_damage(Format format, const std::byte* bytes, std::size_t columns, std::uint64_t row);

}  // namespace vitro
