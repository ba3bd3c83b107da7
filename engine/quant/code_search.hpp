// Quantisation into the formats of group_formats.hpp: a search for the scale (and zero point) of least squared error. The same
// bits on every target.
//
// A code is that of the level nearest to x / scale in float32; halfway, the lower one. (Codes of eight bits: x / scale is moved by the zero
// point first, which rounds once more.) The scales that are tried put the
// largest magnitude (with a zero point: the range from the smallest to the largest value, zero included) at 0.7 to 1.7 times
// the outermost level in steps of 0.1, of either sign where the levels are not symmetric, and with the zero point that centres
// the range or one of its neighbours. Each is then replaced by the scale of least squares for its codes, rounded to binary16,
// and the codes are chosen anew; the first of equals wins. The plain scale (1.0, not replaced) is a candidate too, so the
// squared error of a block is never above that of absmax or min/max rounding.
#pragma once
#include <cstddef>

#include "engine/tensor/format.hpp"

namespace vitro {

// The largest magnitude that a row of `format` takes for certain: what the largest binary16 scale can express.
// Requires: has_codes.
float largest_codable(Format format);

// quantise_row() for these formats: block by block, or the n values of a row together where they have one scale.
// Requires: has_codes and not q4_0, which has a definition of its own.
void quantise_codes(Format format, const float* in, std::byte* out, std::size_t n);

// -scale, 0 or scale, whichever is nearest. Requires: a group format without zero point, of two bits or more.
void quantise_ternary(Format format, float scale, const float* in, std::byte* out, std::size_t n);

}  // namespace vitro
