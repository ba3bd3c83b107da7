// What both x86 targets load alike.
#pragma once
#include <immintrin.h>

#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {

// A binary16 at `at` of each of eight rows. Always inlined: each target compiles its own.
[[gnu::always_inline]] static inline __m128i eight_scales(const std::byte* const* rows, std::size_t at) {
  const auto half = [&](int r) __attribute__((always_inline)) {
    Half bits;
    __builtin_memcpy(&bits, rows[r] + at, sizeof bits);
    return static_cast<std::int16_t>(bits);
  };
  return _mm_set_epi16(half(7), half(6), half(5), half(4), half(3), half(2), half(1), half(0));
}

}  // namespace vitro
