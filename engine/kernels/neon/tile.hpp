// What the steps of tiles share on NEON (tiles.hpp, code_tiles.hpp, lut/), baseline Armv8; unnamed namespace as in vector.hpp.
#pragma once
#include "engine/kernels/neon/vector.hpp"

namespace vitro {
namespace {

// 16 rows of 4 weights each: register i holds rows 4i .. 4i + 3. What the targets share; they add dot().
struct Tile {
  using V = Vector;
  using Wide = uint8x16_t;
  static constexpr int kBatch = 2;
  static constexpr std::int32_t kQuantsOffset = 0, kNibblesOffset = 8, kPlacedOffset = 8;
  struct Ints {
    int32x4_t q[4];
  };
  struct Quants {
    int8x16_t q[4];
  };
  struct NibblePair {
    Quants low, high;
  };

  static Ints all(std::int32_t x) {
    const int32x4_t v = vdupq_n_s32(x);
    return {{v, v, v, v}};
  }
  static Quants quants(const std::byte* p) {
    const auto* w = reinterpret_cast<const std::int8_t*>(p);
    return {{vld1q_s8(w), vld1q_s8(w + 16), vld1q_s8(w + 32), vld1q_s8(w + 48)}};
  }
  // Not moved down by 8, which is cheaper to put right once for all.
  static NibblePair nibbles(const std::byte* p) {
    NibblePair pair;
    for (int i = 0; i < 4; ++i) {
      const uint8x16_t both = vld1q_u8(reinterpret_cast<const std::uint8_t*>(p) + 16 * i);
      pair.low.q[i] = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
      pair.high.q[i] = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
    }
    return pair;
  }
  static NibblePair nibbles(const std::byte* const* rows, std::size_t at) {
    uint8x16_t r[4];
    for (int i = 0; i < 4; ++i) r[i] = vld1q_u8(reinterpret_cast<const std::uint8_t*>(rows[i] + at));
    const uint16x8_t low01 = vreinterpretq_u16_u8(vzip1q_u8(r[0], r[1])), high01 = vreinterpretq_u16_u8(vzip2q_u8(r[0], r[1]));
    const uint16x8_t low23 = vreinterpretq_u16_u8(vzip1q_u8(r[2], r[3])), high23 = vreinterpretq_u16_u8(vzip2q_u8(r[2], r[3]));
    const uint16x8_t both[4] = {vzip1q_u16(low01, low23), vzip2q_u16(low01, low23), vzip1q_u16(high01, high23), vzip2q_u16(high01, high23)};
    NibblePair pair;
    for (int i = 0; i < 4; ++i) {
      const uint8x16_t bytes = vreinterpretq_u8_u16(both[i]);
      pair.low.q[i] = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
      pair.high.q[i] = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    }
    return pair;
  }
  static constexpr int kOctets = 4;
  using Octets = const std::int64_t (&)[kOctets];
  static uint8x16_t pair(Octets v, int i) {
    const auto eight = [&](int k) { return vcreate_u8(static_cast<std::uint64_t>(v[k])); };
    return vcombine_u8(eight(2 * i), eight(2 * i + 1));
  }
  // 0xff for each bit of two bytes.
  static uint8x16_t bytes_of(const std::byte* bits) {
    const auto eight = [&](int i) { return vdup_n_u8(static_cast<std::uint8_t>(bits[i])); };
    return vtstq_u8(vcombine_u8(eight(0), eight(1)), vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201)));
  }
  static void with_signs(Octets entries, const std::byte* marks, std::byte* to) {
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t mask = bytes_of(marks + 2 * i);
      vst1q_u8(reinterpret_cast<std::uint8_t*>(to) + 16 * i, vsubq_u8(veorq_u8(pair(entries, i), mask), mask));
    }
  }
  static void with_deltas(Octets entries, const std::byte* marks, std::byte* to) {
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t v = veorq_u8(pair(entries, i), vdupq_n_u8(128));
      vst1q_u8(reinterpret_cast<std::uint8_t*>(to) + 16 * i, vsubq_u8(v, vandq_u8(bytes_of(marks + 2 * i), vdupq_n_u8(2))));
    }
  }
  static void opaque(Quants& w) { asm volatile("" : "+w"(w.q[0]), "+w"(w.q[1]), "+w"(w.q[2]), "+w"(w.q[3])); }
  static int8x16_t four(const std::int8_t* x) {
    std::int32_t bits;
    __builtin_memcpy(&bits, x, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(bits));
  }
  static Vector to_floats(Ints v) {
    return Vector::each([&](int i) { return vcvtq_f32_s32(v.q[i]); });
  }

  using ValueRegister = int8x16_t;
  static ValueRegister value_register(const std::int8_t (&values)[16]) { return vld1q_s8(values); }
  static NibblePair values(const std::byte* p, ValueRegister table) {
    NibblePair pair;
    for (int i = 0; i < 4; ++i) {
      const uint8x16_t both = load(p + 16 * i);
      pair.low.q[i] = vqtbl1q_s8(table, vandq_u8(both, vdupq_n_u8(15)));
      pair.high.q[i] = vqtbl1q_s8(table, vshrq_n_u8(both, 4));
    }
    return pair;
  }

  using Codes = Quants;
  template <class F>
  [[gnu::always_inline]] static Quants each(F f) {
    return {{vreinterpretq_s8_u8(f(0)), vreinterpretq_s8_u8(f(1)), vreinterpretq_s8_u8(f(2)), vreinterpretq_s8_u8(f(3))}};
  }
  static uint8x16_t unsigned_of(const Codes& v, int i) { return vreinterpretq_u8_s8(v.q[i]); }
  static Codes codes(const std::byte* p) { return quants(p); }
  static void store(Codes v, std::byte* p) {
    for (int i = 0; i < 4; ++i) vst1q_s8(reinterpret_cast<std::int8_t*>(p) + 16 * i, v.q[i]);
  }
  static Codes field(Codes v, int shift, int mask) {
    return each([&](int i) {
      const uint8x16_t u = unsigned_of(v, i);
      return vandq_u8(shift < 0 ? u << -shift : u >> shift, vdupq_n_u8(static_cast<std::uint8_t>(mask)));
    });
  }
  static Codes merge(Codes v, Codes w) {
    return each([&](int i) { return vorrq_u8(unsigned_of(v, i), unsigned_of(w, i)); });
  }
  static Codes no_codes() {
    return each([](int) { return vdupq_n_u8(0); });
  }
  static uint8x16_t load(const std::byte* p) { return vld1q_u8(reinterpret_cast<const std::uint8_t*>(p)); }
  static Codes spread(const std::byte* p) {
    const uint8x16_t rows = load(p), first = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    return each([&](int i) { return vqtbl1q_u8(rows, vaddq_u8(first, vdupq_n_u8(static_cast<std::uint8_t>(4 * i)))); });
  }
  static Codes add_plane(Codes codes, Codes spread, int half, int plane) {
    const uint8x16_t bits = vreinterpretq_u8_u32(vdupq_n_u32(half == 0 ? 0x08040201u : 0x80402010u));
    const uint8x16_t weight = vdupq_n_u8(static_cast<std::uint8_t>(1 << plane));
    return each([&](int i) { return vorrq_u8(unsigned_of(codes, i), vandq_u8(vtstq_u8(unsigned_of(spread, i), bits), weight)); });
  }
  static Ints zeros(const std::byte* p, int shift, int mask) {
    const uint8x16_t fields = vshlq_u8(load(p), vdupq_n_s8(static_cast<std::int8_t>(-shift)));
    const uint8x16_t bytes = vandq_u8(fields, vdupq_n_u8(static_cast<std::uint8_t>(mask)));
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
    const auto widen = [](uint16x4_t four) { return vreinterpretq_s32_u32(vmovl_u16(four)); };
    return {{widen(vget_low_u16(low)), widen(vget_high_u16(low)), widen(vget_low_u16(high)), widen(vget_high_u16(high))}};
  }
  static Ints widened(const std::byte* p) {
    const int8x16_t bytes = vld1q_s8(reinterpret_cast<const std::int8_t*>(p));
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return {{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))}};
  }
  static Ints minus_product(Ints acc, Ints zeros, std::int32_t x) {
    for (int i = 0; i < 4; ++i) acc.q[i] = vmlsq_n_s32(acc.q[i], zeros.q[i], x);
    return acc;
  }
  static Ints twice(Ints v) {
    for (int i = 0; i < 4; ++i) v.q[i] = vshlq_n_s32(v.q[i], 1);
    return v;
  }

  // A register holds 16 rows of one table.
  static constexpr int kParts = 4, kChunksTogether = 1;
  static constexpr int tiles_together(int bits) { return bits <= 2 ? 2 : 1; }
  struct PlaneSums {
    uint8x16_t low, high;
  };
  struct Tables {
    uint8x16_t even_low, even_high, odd_low, odd_high;
  };
  static PlaneSums no_sums() { return {vdupq_n_u8(0), vdupq_n_u8(0)}; }
  static Tables tables(const std::byte* p, int part) {
    p += 16 * part;
    return {load(p), load(p + 64), load(p + 128), load(p + 192)};
  }
  static void look_up(PlaneSums& sums, const std::byte* line, int part, const Tables& t) {
    const uint8x16_t both = load(line + 16 * part), even = vandq_u8(both, vdupq_n_u8(15)), odd = vshrq_n_u8(both, 4);
    sums.low = vaddq_u8(vaddq_u8(sums.low, vqtbl1q_u8(t.even_low, even)), vqtbl1q_u8(t.odd_low, odd));
    sums.high = vaddq_u8(vaddq_u8(sums.high, vqtbl1q_u8(t.even_high, even)), vqtbl1q_u8(t.odd_high, odd));
    asm("" : "+w"(sums.low), "+w"(sums.high));  // else g++ 12 gathers all additions at the end and spills what they wait for
  }
  // 16 bits hold a chunk's sum over all planes, at most 15 * 8 * 508.
  template <int Bits>
  static Ints gather(Ints acc, const PlaneSums (&sums)[Bits]) {
    uint16x8_t first = vdupq_n_u16(0), second = first;
#pragma GCC unroll 4
    for (int i = Bits - 1; i >= 0; --i) {
      const auto plane = [](uint8x8_t low, uint8x8_t high) { return vaddw_u8(vshll_n_u8(high, 4), low); };
      first = vaddq_u16(vaddq_u16(first, first), plane(vget_low_u8(sums[i].low), vget_low_u8(sums[i].high)));
      second = vaddq_u16(vaddq_u16(second, second), plane(vget_high_u8(sums[i].low), vget_high_u8(sums[i].high)));
    }
    const auto add = [](int32x4_t a, uint16x4_t b) { return vreinterpretq_s32_u32(vaddw_u16(vreinterpretq_u32_s32(a), b)); };
    return {{add(acc.q[0], vget_low_u16(first)), add(acc.q[1], vget_high_u16(first)), add(acc.q[2], vget_low_u16(second)),
             add(acc.q[3], vget_high_u16(second))}};
  }

  // Widening multiply-adds weigh what is found: rows 0 to 7, and 8 to 15.
  static constexpr int kRoundedChunks = 2;
  struct RoundedSums {  // of even and odd tables apart, for shorter chains of additions
    int16x8_t first[2], second[2];
  };
  struct RoundedTables {
    int8x16_t even, odd;
  };
  static RoundedSums no_rounded_sums() { return {{vdupq_n_s16(0), vdupq_n_s16(0)}, {vdupq_n_s16(0), vdupq_n_s16(0)}}; }
  static RoundedTables rounded_tables(const std::byte* p, int part) {
    const auto* bytes = reinterpret_cast<const std::int8_t*>(p) + 16 * part;
    return {vld1q_s8(bytes), vld1q_s8(bytes + 64)};
  }
  static void look_up_rounded(RoundedSums& sums, const std::byte* line, int part, const RoundedTables& t, int plane) {
    const uint8x16_t both = load(line + 16 * part);
    const int8x16_t even = vqtbl1q_s8(t.even, vandq_u8(both, vdupq_n_u8(15))), odd = vqtbl1q_s8(t.odd, vshrq_n_u8(both, 4));
    if (plane == 0) {
      sums.first[0] = vaddq_s16(sums.first[0], vaddl_s8(vget_low_s8(even), vget_low_s8(odd)));
      sums.second[0] = vaddq_s16(sums.second[0], vaddl_s8(vget_high_s8(even), vget_high_s8(odd)));
      return;
    }
    const int8x8_t weight = vdup_n_s8(static_cast<std::int8_t>(1 << plane));
    sums.first[0] = vmlal_s8(sums.first[0], vget_low_s8(even), weight);
    sums.first[1] = vmlal_s8(sums.first[1], vget_low_s8(odd), weight);
    sums.second[0] = vmlal_s8(sums.second[0], vget_high_s8(even), weight);
    sums.second[1] = vmlal_s8(sums.second[1], vget_high_s8(odd), weight);
  }
  static Ints gather_rounded(Ints acc, const RoundedSums& sums) {
    const int16x8_t first = vaddq_s16(sums.first[0], sums.first[1]), second = vaddq_s16(sums.second[0], sums.second[1]);
    return {{vaddw_s16(acc.q[0], vget_low_s16(first)), vaddw_s16(acc.q[1], vget_high_s16(first)), vaddw_s16(acc.q[2], vget_low_s16(second)),
             vaddw_s16(acc.q[3], vget_high_s16(second))}};
  }
};

}  // namespace
}  // namespace vitro
