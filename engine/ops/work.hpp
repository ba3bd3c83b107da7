// The price list of scalar work, in operations per element, shared by counts and the reference's tally. An exponential,
// a power or an angle function counts as 8.
#pragma once
#include <cstdint>

namespace vitro::work {

inline constexpr std::uint64_t kTranscendental = 8;
inline constexpr std::uint64_t kSoftmax = kTranscendental + 3;  // maximum, difference, sum
inline constexpr std::uint64_t kExponentials = kSoftmax - 1;     // of a softmax whose sum comes later
inline constexpr std::uint64_t kNorm = 4;                       // square, sum, two products
inline constexpr std::uint64_t kLayerNorm = kNorm + 3;          // and a sum, a difference, another sum
inline constexpr std::uint64_t kAngle = 3 * kTranscendental;    // of a pair at one position: power, cosine, sine
inline constexpr std::uint64_t kTurn = 6;                       // of a pair of one head
inline constexpr std::uint64_t kMove = 1;                       // a load and a store: what is in a cache is not free either
inline constexpr std::uint64_t kTable = 4;                      // of an activation: 16 signed sums per 4 of them

}  // namespace vitro::work
