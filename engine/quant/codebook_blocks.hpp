// Blocks of GGUF's codebook formats (iq1_s to iq3_s), 256 columns each. A value is d * kUnit * s * v: d is binary16, s an odd integer that
// 16 or 32 columns share, v an integer of a byte. Eight v are found at once: indices of codebook entries (codebooks.hpp), and signs. Every
// index of as many bits as a format has is an entry, so any bytes are a valid block. Layouts, of little-endian numbers:
//   iq2_xxs: d; for each 32 columns four bytes of indices, then 4 x 7 bits of signs and 4 bits of scale (66 bytes)
//   iq2_xs:  d; for each 8 columns 9 bits of index and 7 of signs; for each 16 columns 4 bits of scale (74)
//   iq2_s:   d; low bytes of indices; signs; 2 more bits of each index; for each 16 columns 4 bits of scale (82)
//   iq3_xxs: d; for each 4 columns a byte of index; for each 32 columns 4 x 7 bits of signs and 4 bits of scale (98)
//   iq3_s:   d; low bytes of indices, of 4 columns each; 1 more bit of each; signs; for each 32 columns 4 bits of scale (110)
//   iq1_s:   d; low bytes of indices; for each 32 columns 4 x 3 bits more of indices, 3 bits of scale, 1 bit of delta (50)
//   iq1_m:   low bytes of indices; for each 8 columns 3 more bits and 1 bit of delta; for each 64 columns 4 x 3 bits of
//            scale and 4 bits of d, lowest first (56)
// With 4 or 3 bits of scale u, s = 2 u + 1. Seven bits of signs have an eighth that makes their number even. delta: v = 8 g + 1, or with
// the bit set 8 g - 1.
// All is always inlined: files of several instruction sets use it, and no copy of it may be linked into another.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/quant/codebooks.hpp"
#include "engine/tensor/format.hpp"

namespace vitro::codebook {

inline constexpr int kGroups = 8;  // of 32 columns, in a block

template <class Word>
[[gnu::always_inline]] inline Word load(const std::byte* p) {
  Word word;
  __builtin_memcpy(&word, p, sizeof word);
  return word;
}
[[gnu::always_inline]] inline unsigned byte_at(const std::byte* p, int i) { return static_cast<unsigned>(p[i]); }

inline constexpr std::uint64_t kOnes = 0x0101010101010101;

// Bytes from 1 to 127, those negated whose bit is set: no byte carries into the next.
[[gnu::always_inline]] inline std::uint64_t with_signs(std::uint64_t v, unsigned signs) {
  const std::uint64_t mask = kMasks.at[signs];
  return (v ^ mask) + (mask & kOnes);
}
// Of an entry of kIq1: 128 less, and 2 less where a bit is set.
[[gnu::always_inline]] inline std::uint64_t with_deltas(std::uint64_t v, unsigned downs) {
  return (v - (kMasks.at[downs] & 2 * kOnes)) ^ 0x80 * kOnes;
}
[[gnu::always_inline]] inline std::uint64_t both(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }
// Bytes of seven bits get the eighth.
template <class Word>
[[gnu::always_inline]] inline Word made_even(Word sevens) {
  Word odd = sevens ^ sevens >> 4;
  odd ^= odd >> 2;
  odd ^= odd >> 1;
  return sevens | (odd & static_cast<Word>(kOnes)) << 7;
}
[[gnu::always_inline]] inline std::uint32_t four_times_seven(std::uint32_t x) {
  return made_even((x & 0x7f) | (x & 0x3f80) << 1 | (x & 0x1fc000) << 2 | (x & 0xfe00000) << 3);
}

// Each has kRun, the columns that share s; and for columns 32 b to 32 b + 31 scale(in, b, i), the s of run i of them; octets(in, b, put),
// which calls put(j, entries) for j = 0 to 3; marks(in, b), a bit for each column. changed() makes the values of eight entries and their
// marks, which are signs or deltas (kSigned).
template <Format kFormat>
struct Codec;

struct WithSigns {
  static constexpr bool kSigned = true;
  [[gnu::always_inline]] static inline std::uint64_t changed(std::uint64_t v, unsigned marks) { return with_signs(v, marks); }
  [[gnu::always_inline]] static inline std::uint16_t d(const std::byte* in) { return load<std::uint16_t>(in); }
};

struct WithDeltas {
  static constexpr bool kSigned = false;
  static constexpr float kUnit = 0.125f;
  [[gnu::always_inline]] static inline std::uint64_t changed(std::uint64_t v, unsigned marks) { return with_deltas(v, marks); }
};

template <>
struct Codec<Format::iq2_xxs> : WithSigns {
  static constexpr int kRun = 32;
  static constexpr float kUnit = 0.125f;
  [[gnu::always_inline]] static inline unsigned scale(const std::byte* in, int b, int) { return 2 * (byte_at(in + 9, 8 * b) >> 4) + 1; }
  [[gnu::always_inline]] static inline std::uint32_t marks(const std::byte* in, int b) {
    return four_times_seven(load<std::uint32_t>(in + 6 + 8 * b));
  }
  template <class Put>
  [[gnu::always_inline]] static inline void octets(const std::byte* in, int b, Put put) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) put(j, kIq2Xxs.at[byte_at(in + 2, 8 * b + j)]);
  }
};

// iq2_xs and iq2_s, whose scales begin `at` bytes behind the block's beginning.
template <int at>
struct WithNibbles : WithSigns {
  static constexpr int kRun = 16;
  static constexpr float kUnit = 0.125f;
  [[gnu::always_inline]] static inline unsigned scale(const std::byte* in, int b, int i) {
    return 2 * (byte_at(in + at, b) >> 4 * i & 15) + 1;
  }
};

template <>
struct Codec<Format::iq2_xs> : WithNibbles<66> {
  [[gnu::always_inline]] static inline std::uint32_t marks(const std::byte* in, int b) {
    std::uint64_t sevens = load<std::uint64_t>(in + 2 + 8 * b) >> 9 & 0x007f007f007f007f;
    sevens |= sevens >> 8;
    return made_even(static_cast<std::uint32_t>((sevens & 0xffff) | (sevens >> 16 & 0xffff0000)));
  }
  template <class Put>
  [[gnu::always_inline]] static inline void octets(const std::byte* in, int b, Put put) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) put(j, kIq2Xs.at[load<std::uint16_t>(in + 2 + 8 * b + 2 * j) & 511]);
  }
};

template <>
struct Codec<Format::iq2_s> : WithNibbles<74> {
  [[gnu::always_inline]] static inline std::uint32_t marks(const std::byte* in, int b) { return load<std::uint32_t>(in + 34 + 4 * b); }
  template <class Put>
  [[gnu::always_inline]] static inline void octets(const std::byte* in, int b, Put put) {
    const unsigned high = byte_at(in + 66, b) << 8;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) put(j, kIq2S.at[byte_at(in + 2, 4 * b + j) | (high >> 2 * j & 0x300)]);
  }
};

template <>
struct Codec<Format::iq3_xxs> : WithSigns {
  static constexpr int kRun = 32;
  static constexpr float kUnit = 0.25f;
  [[gnu::always_inline]] static inline unsigned scale(const std::byte* in, int b, int) { return 2 * (byte_at(in + 69, 4 * b) >> 4) + 1; }
  [[gnu::always_inline]] static inline std::uint32_t marks(const std::byte* in, int b) {
    return four_times_seven(load<std::uint32_t>(in + 66 + 4 * b));
  }
  template <class Put>
  [[gnu::always_inline]] static inline void octets(const std::byte* in, int b, Put put) {
    const std::byte* const places = in + 2 + 8 * b;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) put(j, both(kIq3Xxs.at[byte_at(places, 2 * j)], kIq3Xxs.at[byte_at(places, 2 * j + 1)]));
  }
};

template <>
struct Codec<Format::iq3_s> : WithSigns {
  static constexpr int kRun = 32;
  static constexpr float kUnit = 1;
  [[gnu::always_inline]] static inline unsigned scale(const std::byte* in, int b, int) {
    return 2 * (byte_at(in + 106, b / 2) >> 4 * (b % 2) & 15) + 1;
  }
  [[gnu::always_inline]] static inline std::uint32_t marks(const std::byte* in, int b) { return load<std::uint32_t>(in + 74 + 4 * b); }
  template <class Put>
  [[gnu::always_inline]] static inline void octets(const std::byte* in, int b, Put put) {
    const std::byte* const low = in + 2 + 8 * b;
    const unsigned high = byte_at(in + 66, b) << 8;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const auto four = [&](int i) __attribute__((always_inline)) { return kIq3S.at[byte_at(low, i) | (high >> i & 256)]; };
      put(j, both(four(2 * j), four(2 * j + 1)));
    }
  }
};

template <>
struct Codec<Format::iq1_s> : WithDeltas {
  static constexpr int kRun = 32;
  [[gnu::always_inline]] static inline std::uint16_t d(const std::byte* in) { return load<std::uint16_t>(in); }
  [[gnu::always_inline]] static inline unsigned scale(const std::byte* in, int b, int) {
    return 2 * (byte_at(in + 35, 2 * b) >> 4 & 7) + 1;
  }
  [[gnu::always_inline]] static inline std::uint32_t marks(const std::byte* in, int b) { return 0u - (byte_at(in + 35, 2 * b) >> 7); }
  template <class Put>
  [[gnu::always_inline]] static inline void octets(const std::byte* in, int b, Put put) {
    const unsigned high = load<std::uint16_t>(in + 34 + 2 * b) << 8;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) put(j, kIq1.at[byte_at(in + 2, 4 * b + j) | (high >> 3 * j & 0x700)]);
  }
};

template <>
struct Codec<Format::iq1_m> : WithDeltas {
  static constexpr int kRun = 16;
  [[gnu::always_inline]] static inline std::uint16_t d(const std::byte* in) {
    const auto words = load<std::uint64_t>(in + 48);
    return static_cast<std::uint16_t>((words >> 12 & 15) | (words >> 24 & 0xf0) | (words >> 36 & 0xf00) | (words >> 48 & 0xf000));
  }
  [[gnu::always_inline]] static inline unsigned scale(const std::byte* in, int b, int i) {
    return 2 * (load<std::uint16_t>(in + 48 + b / 2 * 2) >> (b % 2 * 6 + 3 * i) & 7) + 1;
  }
  [[gnu::always_inline]] static inline std::uint32_t marks(const std::byte* in, int b) {
    std::uint32_t fields = load<std::uint16_t>(in + 32 + 2 * b) >> 3 & 0x1111;  // of four bits; then of eight
    fields = (fields | fields << 8) & 0x00110011;
    fields = (fields | fields << 4) & 0x01010101;
    return 255 * fields;
  }
  template <class Put>
  [[gnu::always_inline]] static inline void octets(const std::byte* in, int b, Put put) {
    const unsigned high = load<std::uint16_t>(in + 32 + 2 * b) << 8;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) put(j, kIq1.at[byte_at(in, 4 * b + j) | (high >> 4 * j & 0x700)]);
  }
};

// act.template operator()<format>(). Requires: format.is_codebook().
template <class Act>
[[gnu::always_inline]] inline void with_format(Format format, const Act& act) {
  if (format == Format::iq2_xxs) return act.template operator()<Format::iq2_xxs>();
  if (format == Format::iq2_xs) return act.template operator()<Format::iq2_xs>();
  if (format == Format::iq2_s) return act.template operator()<Format::iq2_s>();
  if (format == Format::iq3_xxs) return act.template operator()<Format::iq3_xxs>();
  if (format == Format::iq3_s) return act.template operator()<Format::iq3_s>();
  if (format == Format::iq1_s) return act.template operator()<Format::iq1_s>();
  act.template operator()<Format::iq1_m>();
}

// Columns that share s. Requires: format.is_codebook().
[[gnu::always_inline]] inline int run_of(Format format) {
  int run = 0;
  with_format(format, [&]<Format kFormat>() { run = Codec<kFormat>::kRun; });
  return run;
}

}  // namespace vitro::codebook
