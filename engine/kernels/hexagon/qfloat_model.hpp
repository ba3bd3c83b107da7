// A software model of the instruction set of float_stages.hpp and attention_stages.hpp, for machines without HVX floats.
//
// How qfloat rounds before V79 is not public. Assumed is a significand as wide as that of the IEEE format it stands in for, 11
// and 24 bits, with a wider exponent. The model rounds every result to that width, to the nearest or downwards (what two's
// complement does when bits are dropped); code counts as right when its error bound holds for both.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/kernels/hexagon/protocol.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::hexagon {

enum class QfloatRounding { nearest, down };

template <QfloatRounding kRounding>
struct QfloatModel {
  struct alignas(kVectorBytes) Vector {
    unsigned char byte[kVectorBytes];
  };
  struct Pair {
    Vector lo, hi;
  };
  struct Q16 {
    double lane[64];
  };
  struct Q32 {
    double lane[32];
  };
  struct PairQ32 {
    Q32 lo, hi;
  };

  static double rounded(double value, int bits) {
    int exponent = 0;
    const double scaled = std::ldexp(std::frexp(value, &exponent), bits);  // the kept bits are before the point
    return std::ldexp(kRounding == QfloatRounding::nearest ? std::nearbyint(scaled) : std::floor(scaled), exponent - bits);
  }

  // Loops over lanes are functions of their own: the stages are unrolled for HVX, where an operation is one instruction.
  template <class T, std::size_t kLanes, class F>
  [[gnu::noinline]] static Vector make(F f) {
    T lanes[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<T>(f(i));
    Vector v;
    std::memcpy(v.byte, lanes, sizeof v.byte);
    return v;
  }
  template <class T>
  static T lane(const Vector& v, std::size_t i) {
    T value;
    std::memcpy(&value, v.byte + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class F>
  static Vector halves(F f) {
    return make<std::uint16_t, 64>(f);
  }
  template <class F>
  static Vector words(F f) {
    return make<std::uint32_t, 32>(f);
  }
  static std::uint16_t half(const Vector& v, std::size_t i) { return lane<std::uint16_t>(v, i); }
  static std::uint32_t word(const Vector& v, std::size_t i) { return lane<std::uint32_t>(v, i); }
  static double hf(const Vector& v, std::size_t i) { return static_cast<double>(half_to_float(half(v, i))); }
  static double sf(const Vector& v, std::size_t i) { return static_cast<double>(lane<float>(v, i)); }

  template <int kTable>
  static Pair look_up(const Vector& indices, const Vector& tables) {
    const auto entry = [&](std::size_t byte) { return half(tables, kTable / 2 * 32 + 2 * (indices.byte[byte] & 15u) + kTable % 2); };
    return {halves([&](std::size_t i) { return entry(2 * i); }), halves([&](std::size_t i) { return entry(2 * i + 1); })};
  }
  template <int kTable>
  static Pair look_up_marked(const Vector& indices, const Vector& tables) {
    const Pair all = look_up<kTable>(indices, tables);
    const auto marked = [&](std::size_t byte) { return indices.byte[byte] >> 4 == kTable / 2 + 2 * (kTable % 2); };
    return {halves([&](std::size_t i) { return marked(2 * i) ? half(all.lo, i) : 0; }),
            halves([&](std::size_t i) { return marked(2 * i + 1) ? half(all.hi, i) : 0; })};
  }
  template <int kTable>
  static Pair look_up_more(const Pair& found, const Vector& indices, const Vector& tables) {
    const Pair more = look_up_marked<kTable>(indices, tables);
    return {either(found.lo, more.lo), either(found.hi, more.hi)};
  }
  static Vector high_nibbles(const Vector& v) {
    return halves([&](std::size_t i) { return half(v, i) >> 4; });
  }
  static Vector shift_right(const Vector& v, int bits) {
    return halves([&](std::size_t i) { return half(v, i) >> bits; });
  }
  static Vector mask(const Vector& v, const Vector& m) {
    return halves([&](std::size_t i) { return half(v, i) & half(m, i); });
  }
  static Vector splat_half(int value) {
    return halves([&](std::size_t) { return value; });
  }
  static Vector splat(std::int32_t value) {
    return words([&](std::size_t) { return value; });
  }
  static Vector add_half(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return half(a, i) + half(b, i); });
  }
  static Vector add_word(const Vector& a, const Vector& b) {
    return words([&](std::size_t i) { return word(a, i) + word(b, i); });
  }
  static Vector interleave_halves(const Vector& v) {
    return halves([&](std::size_t i) { return half(v, i / 2 + i % 2 * 32); });
  }
  static Pair widen_unsigned(const Vector& v) {
    return {halves([&](std::size_t i) { return v.byte[2 * i]; }), halves([&](std::size_t i) { return v.byte[2 * i + 1]; })};
  }
  static Vector load_unaligned(const unsigned char* p) {
    return make<std::uint8_t, kVectorBytes>([p](std::size_t i) { return p[i]; });
  }
  static Pair unpack_signed(const Vector& v) {
    const auto wide = [&](std::size_t byte) { return static_cast<std::int8_t>(v.byte[byte]); };
    return {halves(wide), halves([&](std::size_t i) { return wide(i + 64); })};
  }
  static void scatter_first(std::uint32_t count, std::uintptr_t base, const Vector& offsets, const Vector& v) {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(reinterpret_cast<void*>(base + half(offsets, i)), v.byte + 2 * i, 2);
  }
  static Vector exclusive_or(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return half(a, i) ^ half(b, i); });
  }
  static Vector either(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return half(a, i) | half(b, i); });
  }
  static Vector sign_halves(const Vector& v) {
    return halves([&](std::size_t i) { return lane<std::int16_t>(v, i) >> 15; });
  }
  static Vector max_half(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return std::max(lane<std::int16_t>(a, i), lane<std::int16_t>(b, i)); });
  }
  static Vector min_bits(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return std::min(half(a, i), half(b, i)); });
  }
  template <int kBits>
  static Vector shift_half(const Vector& v) {
    return halves([&](std::size_t i) { return half(v, i) << kBits; });
  }
  template <int kBits>
  static Vector shift_word(const Vector& v) {
    return words([&](std::size_t i) { return word(v, i) << kBits; });
  }
  static Vector half_of_word(const Vector& v) {
    return words([&](std::size_t i) { return lane<std::int32_t>(v, i) >> 1; });
  }
  static Vector subtract_word(const Vector& a, const Vector& b) {
    return words([&](std::size_t i) { return word(a, i) - word(b, i); });
  }
  static Pair interleave_words(const Vector& a, const Vector& b) {
    const auto at = [&](std::size_t i) { return word(i % 2 == 0 ? a : b, i / 2); };
    return {words(at), words([&](std::size_t i) { return at(i + 32); })};
  }
  template <int kBytes>
  static Pair interleave(const Vector& a, const Vector& b) {
    const auto at = [&](std::size_t i) { return (i / kBytes % 2 == 0 ? a : b).byte[i / (2 * kBytes) * kBytes + i % kBytes]; };
    return {make<std::uint8_t, kVectorBytes>(at), make<std::uint8_t, kVectorBytes>([&](std::size_t i) { return at(i + kVectorBytes); })};
  }
  static Vector even_bytes(const Vector& a, const Vector& b) {
    return make<std::uint8_t, kVectorBytes>([&](std::size_t i) { return (i % 2 == 0 ? a : b).byte[i / 2 * 2]; });
  }
  static Vector odd_bytes(const Vector& a, const Vector& b) {
    return make<std::uint8_t, kVectorBytes>([&](std::size_t i) { return (i % 2 == 0 ? a : b).byte[i / 2 * 2 + 1]; });
  }
  static Pair deal_words(const Vector& v) {
    return {words([&](std::size_t i) { return word(v, 2 * i % 32); }), words([&](std::size_t i) { return word(v, 2 * i % 32 + 1); })};
  }
  static Vector max_word(const Vector& a, const Vector& b) {
    return words([&](std::size_t i) { return std::max(lane<std::int32_t>(a, i), lane<std::int32_t>(b, i)); });
  }
  static Vector low_halves(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return i < 32 ? word(a, i) : word(b, i - 32); });
  }
  static Vector high_halves(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return (i < 32 ? word(a, i) : word(b, i - 32)) >> 16; });
  }
  static Vector low_bytes(const Vector& a, const Vector& b) {
    return make<std::uint8_t, kVectorBytes>([&](std::size_t i) { return i < 64 ? half(a, i) : half(b, i - 64); });
  }
  static Vector sums_of_fours(const Vector& bytes) {
    const auto at = [&](std::size_t i) { return static_cast<std::int8_t>(bytes.byte[i]); };
    return words([&](std::size_t i) { return at(4 * i) + at(4 * i + 1) + at(4 * i + 2) + at(4 * i + 3); });
  }
  static Pair multiply_integers(const Vector& a, const Vector& b) {
    const auto product = [&](std::size_t i) { return lane<std::int16_t>(a, i) * lane<std::int16_t>(b, i); };
    return {words([&](std::size_t i) { return product(2 * i); }), words([&](std::size_t i) { return product(2 * i + 1); })};
  }
  static Vector rotate(const Vector& v, int bytes) {
    return make<std::uint8_t, kVectorBytes>([&](std::size_t i) { return v.byte[(i + static_cast<std::size_t>(bytes)) % kVectorBytes]; });
  }
  static void gather(Vector* out, const std::uint16_t* table, const Vector& offsets) {
    *out = halves([&](std::size_t i) { return table[half(offsets, i) / 2]; });
  }
  static Vector where_not_above(const Vector& bits, const Vector& limit, const Vector& v) {
    return halves([&](std::size_t i) { return half(bits, i) > half(limit, i) ? 0 : half(v, i); });
  }
  static Vector even_halves(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return half(i % 2 == 0 ? a : b, i / 2 * 2); });
  }
  static Vector odd_halves(const Vector& a, const Vector& b) {
    return halves([&](std::size_t i) { return half(i % 2 == 0 ? a : b, i / 2 * 2 + 1); });
  }
  static Pair widen_bytes(const Vector& v) {
    const auto wide = [&](std::size_t byte) { return static_cast<std::int8_t>(v.byte[byte]); };
    return {halves([&](std::size_t i) { return wide(2 * i); }), halves([&](std::size_t i) { return wide(2 * i + 1); })};
  }

  template <class F>
  [[gnu::noinline]] static Q16 q16(F f) {
    Q16 q;
    for (std::size_t i = 0; i < 64; ++i) q.lane[i] = rounded(f(i), 11);
    return q;
  }
  template <class F>
  [[gnu::noinline]] static Q32 q32(F f) {
    Q32 q;
    for (std::size_t i = 0; i < 32; ++i) q.lane[i] = rounded(f(i), 24);
    return q;
  }
  static Q16 multiply(const Vector& a, const Vector& b) {
    return q16([&](std::size_t i) { return hf(a, i) * hf(b, i); });
  }
  static Q16 multiply(const Q16& a, const Vector& b) {
    return q16([&](std::size_t i) { return a.lane[i] * hf(b, i); });
  }
  static Q16 subtract_half(const Vector& a, const Vector& b) {
    return q16([&](std::size_t i) { return hf(a, i) - hf(b, i); });
  }
  static Q16 add_half_float(const Vector& a, const Vector& b) {
    return q16([&](std::size_t i) { return hf(a, i) + hf(b, i); });
  }
  static Q16 add(const Q16& a, const Vector& b) {
    return q16([&](std::size_t i) { return a.lane[i] + hf(b, i); });
  }
  static Vector to_half(const Q16& a) {
    return halves([&](std::size_t i) { return float_to_half(static_cast<float>(a.lane[i])); });
  }
  static PairQ32 multiply_wide(const Vector& a, const Vector& b) {
    const auto product = [&](std::size_t i) { return hf(a, i) * hf(b, i); };
    return {q32([&](std::size_t i) { return product(2 * i); }), q32([&](std::size_t i) { return product(2 * i + 1); })};
  }
  static Q32 subtract(const Vector& a, const Vector& b) {
    return q32([&](std::size_t i) { return sf(a, i) - sf(b, i); });
  }
  static Q32 subtract(const Q32& a, const Q32& b) {
    return q32([&](std::size_t i) { return a.lane[i] - b.lane[i]; });
  }
  static Q32 rotate(const Q32& a, int bytes) {
    return q32([&](std::size_t i) { return a.lane[(i + static_cast<std::size_t>(bytes) / 4) % 32]; });
  }
  static Q32 from_float(const Vector& a) {
    return q32([&](std::size_t i) { return sf(a, i); });
  }
  static Q32 multiply(const Q32& a, const Q32& b) {
    return q32([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
  }
  static Q32 add(const Q32& a, const Q32& b) {
    return q32([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static Vector narrow(const PairQ32& a) {
    return halves([&](std::size_t i) { return float_to_half(static_cast<float>(rounded((i % 2 == 0 ? a.lo : a.hi).lane[i / 2], 11))); });
  }
  static Vector to_float(const Q32& a) {
    return make<float, 32>([&](std::size_t i) { return a.lane[i]; });
  }
};

}  // namespace vitro::hexagon
