// The price list of scalar work, in operations per element, shared by count() and the reference's tally. An exponential,
// a power or an angle function counts as 8.
#pragma once
#include "engine/ops/contract.hpp"

namespace vitro::work {

inline constexpr std::uint64_t kTranscendental = 8;
inline constexpr std::uint64_t kSoftmax = kTranscendental + 3;  // maximum, difference, sum
inline constexpr std::uint64_t kNorm = 4;                       // square, sum, two products
inline constexpr std::uint64_t kAngle = 3 * kTranscendental;    // of a pair at one position: power, cosine, sine
inline constexpr std::uint64_t kTurn = 6;                       // of a pair of one head
inline constexpr std::uint64_t kTable = 4;                      // of an activation: 16 signed sums per 4 of them

constexpr std::uint64_t activation(Activation act) {
  switch (act) {
    case Activation::silu:
      return kTranscendental + 4;  // negate, add, divide, times up
    case Activation::relu:
      return 2;
    case Activation::relu_squared:
      return 3;
    case Activation::gelu:
      return kTranscendental + 8;
  }
  return 0;
}

// One score of select, by its activation parameter (negative: none): the comparison stands where glu multiplies by up.
constexpr std::uint64_t select(float act) { return act < 0 ? 1 : activation(static_cast<Activation>(act)); }

}  // namespace vitro::work
