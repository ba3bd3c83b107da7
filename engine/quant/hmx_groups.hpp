// Quantisation groups that follow the tiles of an NPU's matrix unit (test-time scaling, section 5.1.1): the weights are put into
// the order in which the unit takes them, and 32 neighbours in that order make a group of q4_0: 16 outputs x 2 inputs.
#pragma once
#include <cstddef>
#include <span>

namespace vitro {

inline constexpr std::size_t kHmxGroupRows = 16, kHmxGroupColumns = 2;

// Rounds W [rows, columns] (N x K: a row per output), row-major, to the values that it has when each such group is one block of
// q4_0: a signed scale of binary16 times -8 to 7. In a tile of 32 x 32 the element (k, n) is the halfword 64 (k / 2) + 2 n + k % 2,
// so a group is rows 16a to 16a + 15 and columns 2b and 2b + 1; what an edge lacks is zero. All products are exact in float32.
// The order of the groups among themselves, super-groups of 8 included (section 5.1.2), changes no value.
// Requires: finite values, values.size() a multiple of columns.
void round_to_hmx_groups(std::span<float> values, std::size_t columns);

}  // namespace vitro
