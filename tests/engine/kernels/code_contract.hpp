// The int8 contract of products of codes, spelled out for one row from codes and from the scalar reference of look-ups.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/ops/kernel_call.hpp"

namespace vitro::test {

struct Quantised {
  std::vector<std::int8_t> quants;
  std::vector<float> scales;
};
Quantised quantise(const float* x, std::size_t columns, std::size_t block);

// The product of one row of the file with one row of activations, by the reference's tables.
float product(Format format, const std::byte* row, const Quantised& x, std::size_t columns);

// The same in the variant with tables of int8; beside it how far it may be from the exact one. An entry is off by half, and by
// |sum| / 2^15 <= 508 / 2^15 where r was rounded down: times M / 127 for each of block / 4 look-ups and 2^i of plane i. Then floats: three
// roundings of a dot product, and gamma(blocks + 2) over the blocks.
struct Rounded {
  float value = 0;
  double bound = 0;
};
Rounded rounded_product(Format format, const std::byte* row, const Quantised& x, std::size_t columns);

}  // namespace vitro::test
