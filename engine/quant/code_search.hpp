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
#include <cstdint>
#include <memory>

#include "engine/tensor/format.hpp"

namespace vitro {

// The largest magnitude that a row of `format` takes for certain: what the largest binary16 scale can express.
// Requires: has_codes.
float largest_codable(Format format);

// quantise_row() for these formats: block by block, or the n values of a row together where they have one scale.
// Requires: has_codes and not q4_0, which has a definition of its own.
void quantise_codes(Format format, const float* in, std::byte* out, std::size_t n);

// What values that share a scale round to, one by one, for who decides about each of them by itself (gptq.hpp).
struct SharedScale {
  std::uint16_t scale = 0;  // binary16
  std::uint8_t zero = 0;    // the zero point; 0 without one
};
class CodeRounder {
 public:
  // Requires: format.has_codes().
  explicit CodeRounder(Format format);
  ~CodeRounder();

  // What quantise_row() takes for n values together. Requires: n is one block, or whole rows where they have one scale.
  SharedScale scale_of(const float* in, std::size_t n) const;

  struct Rounded {
    std::uint8_t code = 0;
    float value = 0;  // the bits that dequantise_row() makes of it
  };
  // The nearest level, as quantise_codes() chooses it. (quantise_row() of q4_0 divides by the scale before it is rounded to binary16, so
  // that values halfway between two levels may get the other one.)
  Rounded round(SharedScale scale, float x) const;

 private:
  struct Tables;
  std::unique_ptr<const Tables> tables_;
};

// -scale, 0 or scale, whichever is nearest. Requires: a group format without zero point, of two bits or more.
void quantise_ternary(Format format, float scale, const float* in, std::byte* out, std::size_t n);

}  // namespace vitro
