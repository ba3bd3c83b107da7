// Sets of indices as bits: index n is bit n % 64 of word n / 64.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vitro {

using Bits = std::vector<std::uint64_t>;

inline void set_bit(Bits& bits, std::uint32_t number) { bits[number / 64] |= std::uint64_t{1} << number % 64; }

// Calls `each` with the numbers of the bits in [first, end), ascending. Requires: there are so many.
template <class Each>
void for_bits(const Bits& bits, std::uint32_t first, std::uint32_t end, Each each) {
  for (std::uint32_t w = first / 64; 64 * w < end; ++w) {
    std::uint64_t left = bits[w];
    if (64 * w < first) left &= ~std::uint64_t{0} << first % 64;
    if (end - 64 * w < 64) left &= ~(~std::uint64_t{0} << end % 64);
    for (; left != 0; left &= left - 1) each(64 * w + static_cast<std::uint32_t>(std::countr_zero(left)));
  }
}

inline std::vector<std::uint32_t> indices(const Bits& bits, std::uint32_t first, std::uint32_t end) {
  std::size_t most = 0;
  for (std::uint32_t w = first / 64; 64 * w < end; ++w) most += static_cast<std::size_t>(std::popcount(bits[w]));
  std::vector<std::uint32_t> out(most);
  std::uint32_t* next = out.data();
  for_bits(bits, first, end, [&](std::uint32_t number) { *next++ = number; });
  out.resize(static_cast<std::size_t>(next - out.data()));
  return out;
}

}  // namespace vitro
