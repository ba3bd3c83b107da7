// The kernel contracts in scalar code: the oracle that every other set has to equal bit for bit.
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/kernels/common/table.hpp"
#include "engine/quant/float16.hpp"

namespace vitro {
namespace {

// The loops are written for instructions: they unroll many steps, each of which is a loop of its own here. Inlined, these would take longer
// to compile than everything else in this folder.
#define VITRO_STEP [[gnu::noinline]] static

struct Vector {
  static constexpr int kRows = 1, kBatch = 1;
  float lane[16];

  template <class F>
  static Vector each(F f) {
    Vector v;
    for (int i = 0; i < 16; ++i) v.lane[i] = f(i);
    return v;
  }
  static Vector all(float x) {
    return each([=](int) { return x; });
  }
  static Vector zero() { return all(0); }
  static Vector load(const float* p) {
    return each([=](int i) { return p[i]; });
  }
  VITRO_STEP Vector load(const Half* p) {
    Half halves[16];
    std::memcpy(halves, static_cast<const void*>(p), sizeof halves);  // scales of tiles have no alignment
    return each([&](int i) { return half_to_float(halves[i]); });
  }
  void store(float* p) const { std::memcpy(p, lane, sizeof lane); }
  [[gnu::noinline]] void store(Half* p) const {
    for (int i = 0; i < 16; ++i) p[i] = float_to_half(lane[i]);
  }
  friend Vector operator+(Vector a, Vector b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  friend Vector operator-(Vector a, Vector b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  friend Vector operator*(Vector a, Vector b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  friend Vector operator/(Vector a, Vector b) {
    return each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  [[gnu::noinline]] friend Vector fma(const Vector& a, const Vector& b, const Vector& c) {
    return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  VITRO_STEP Vector floats(lanes::SignedBytes q) {
    return each([&](int i) { return static_cast<float>(q[i]); });
  }
  // Of 16 binary16, given as their upper and lower bytes.
  VITRO_STEP Vector halves(lanes::SignedBytes high, lanes::SignedBytes low) {
    return each([&](int i) {
      return half_to_float(static_cast<Half>(static_cast<std::uint8_t>(high[i]) << 8 | static_cast<std::uint8_t>(low[i])));
    });
  }
  // The 32 weights of a q4_0 block, 16 bytes of nibbles: scale * (nibble - 8), which no float rounds.
  VITRO_STEP void nibbles(const std::byte* p, Vector scale, Vector& low, Vector& high) {
    const auto weight = [&](int quant, int i) { return scale.lane[i] * static_cast<float>(quant - 8); };
    low = each([&](int i) { return weight(std::to_integer<int>(p[i]) & 15, i); });
    high = each([&](int i) { return weight(std::to_integer<int>(p[i]) >> 4, i); });
  }
  // a < b ? yes : no, so that a NaN in a or b selects `no` on every target.
  friend Vector select_less(Vector a, Vector b, Vector yes, Vector no) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i]; });
  }
  // Where the sum in a lane was not exact, by `error`: of its two neighbours the one with an odd last bit.
  Vector made_odd(const Vector& error) const {
    return each([&](int i) {
      const float e = error.lane[i];
      const auto bits = std::bit_cast<std::uint32_t>(lane[i]);
      if (!(e < 0 || e > 0) || (bits & 1) != 0) return lane[i];
      return std::bit_cast<float>((e > 0) == (lane[i] > 0) ? bits + 1 : bits - 1);
    });
  }
  // 2^n for lanes that hold kRoundMagic + n, -127 < n < 128: n moves from the low mantissa bits into the exponent.
  Vector power_of_two() const {
    return each([&](int i) { return std::bit_cast<float>((std::bit_cast<std::uint32_t>(lane[i]) << 23) + 0x3f800000u); });
  }
  Vector magnitude() const {
    return each([&](int i) { return std::fabs(lane[i]); });
  }
  friend Vector larger(const Vector& a, const Vector& b) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? b.lane[i] : a.lane[i]; });
  }
  float largest() const {
    float most = lane[0];
    for (int i = 1; i < 16; ++i) most = most < lane[i] ? lane[i] : most;
    return most;
  }
  // Of lanes that hold kRoundMagic + n, -128 <= n < 128: n in a byte each. Their sum.
  friend std::int32_t store_bytes(const Vector& a, const Vector& b, std::int8_t* p) {
    std::int32_t sum = 0;
    for (int i = 0; i < 32; ++i) {
      p[i] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(i < 16 ? a.lane[i] : b.lane[i - 16]));
      sum += p[i];
    }
    return sum;
  }
  float sum() const {
    float s[8];
    for (int i = 0; i < 8; ++i) s[i] = lane[i] + lane[i + 8];
    for (int i = 0; i < 4; ++i) s[i] += s[i + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
  }
};

struct Target {
  using V = Vector;
  using Wide = std::uint64_t;
  static constexpr int kBatch = 1;
  static constexpr std::int32_t kQuantsOffset = 0, kNibblesOffset = 0, kPlacedOffset = 0;
  struct Ints {
    std::int32_t lane[16];
  };
  struct Quants {
    std::int8_t row[16][4];
  };
  struct NibblePair {
    Quants low, high;
  };

  static Ints all(std::int32_t x) {
    Ints v;
    for (auto& lane : v.lane) lane = x;
    return v;
  }
  static Quants quants(const std::byte* p) {
    Quants q;
    std::memcpy(q.row, p, sizeof q.row);
    return q;
  }
  VITRO_STEP NibblePair nibbles(const std::byte* p) {
    NibblePair n;
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 4; ++i) {
        const int both = std::to_integer<int>(p[4 * r + i]);
        n.low.row[r][i] = static_cast<std::int8_t>((both & 15) - 8);
        n.high.row[r][i] = static_cast<std::int8_t>((both >> 4) - 8);
      }
    }
    return n;
  }
  static void opaque(Quants& w) { asm volatile("" : "+m"(w)); }
  VITRO_STEP NibblePair nibbles(const std::byte* const* rows, std::size_t at) {
    std::byte mixed[64];
    for (int l = 0; l < 16; ++l) {
      for (int i = 0; i < 4; ++i) mixed[4 * l + i] = rows[i][at + static_cast<std::size_t>(l)];
    }
    return nibbles(mixed);
  }
  static const std::int8_t* four(const std::int8_t* x) { return x; }
  VITRO_STEP Ints dot(Ints acc, const Quants& w, const std::int8_t* x) {
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 4; ++i) acc.lane[r] += w.row[r][i] * x[i];
    }
    return acc;
  }
  static Vector to_floats(const Ints& v) {
    return Vector::each([&](int i) { return static_cast<float>(v.lane[i]); });
  }

  using ValueRegister = const std::int8_t*;
  static ValueRegister value_register(const std::int8_t (&values)[16]) { return values; }
  VITRO_STEP NibblePair values(const std::byte* p, ValueRegister table) {
    NibblePair n;
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 4; ++i) {
        const int both = std::to_integer<int>(p[4 * r + i]);
        n.low.row[r][i] = table[both & 15];
        n.high.row[r][i] = table[both >> 4];
      }
    }
    return n;
  }

  using Codes = Quants;
  // Of 64 bytes: f(row, column, byte).
  template <class F>
  static Codes each(F f) {
    Codes out;
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 4; ++i) out.row[r][i] = static_cast<std::int8_t>(f(r, i));
    }
    return out;
  }
  static Codes codes(const std::byte* p) { return quants(p); }
  static void store(const Codes& v, std::byte* p) { std::memcpy(p, v.row, sizeof v.row); }
  VITRO_STEP Codes field(const Codes& v, int shift, int mask) {
    return each([&](int r, int i) {
      const int byte = static_cast<std::uint8_t>(v.row[r][i]);
      return (shift < 0 ? byte << -shift : byte >> shift) & mask;
    });
  }
  static Codes merge(const Codes& v, const Codes& w) {
    return each([&](int r, int i) { return v.row[r][i] | w.row[r][i]; });
  }
  static Codes no_codes() {
    return each([](int, int) { return 0; });
  }
  VITRO_STEP Codes spread(const std::byte* p) {
    return each([&](int r, int) { return std::to_integer<int>(p[r]); });
  }
  VITRO_STEP Codes add_plane(const Codes& codes, const Codes& spread, int half, int plane) {
    return each([&](int r, int i) { return codes.row[r][i] | (spread.row[r][i] >> (4 * half + i) & 1) << plane; });
  }
  static Ints zeros(const std::byte* p, int shift, int mask) {
    Ints v;
    for (int r = 0; r < 16; ++r) v.lane[r] = std::to_integer<int>(p[r]) >> shift & mask;
    return v;
  }
  static Ints widened(const std::byte* p) {
    Ints v;
    for (int r = 0; r < 16; ++r) v.lane[r] = static_cast<std::int8_t>(p[r]);
    return v;
  }
  VITRO_STEP Ints minus_product(Ints acc, const Ints& zeros, std::int32_t x) {
    for (int r = 0; r < 16; ++r) acc.lane[r] -= zeros.lane[r] * x;
    return acc;
  }
  static Ints twice(Ints v) {
    for (auto& lane : v.lane) lane *= 2;
    return v;
  }

  static constexpr int kParts = 1, kChunksTogether = 1;
  static constexpr int tiles_together(int) { return 1; }
  using PlaneSums = Ints;
  using Tables = const std::byte*;
  static PlaneSums no_sums() { return all(0); }
  static Tables tables(const std::byte* p, int) { return p; }
  VITRO_STEP void look_up(PlaneSums& sums, const std::byte* line, int, Tables t) {
    const auto entry = [&](int at) { return std::to_integer<int>(t[at]) + 16 * std::to_integer<int>(t[at + 64]); };
    for (int at = 0; at < 64; ++at) {
      const int both = std::to_integer<int>(line[at]), table = at / 16 * 16;
      sums.lane[at % 16] += entry(table + (both & 15)) + entry(128 + table + (both >> 4));
    }
  }
  template <int Bits>
  static Ints gather(Ints acc, const PlaneSums (&sums)[Bits]) {
    for (int i = 0; i < Bits; ++i) {
      for (int r = 0; r < 16; ++r) acc.lane[r] += sums[i].lane[r] * (1 << i);
    }
    return acc;
  }

  static constexpr int kRoundedChunks = 1;
  using RoundedSums = Ints;
  using RoundedTables = const std::byte*;
  static RoundedSums no_rounded_sums() { return all(0); }
  static RoundedTables rounded_tables(const std::byte* p, int) { return p; }
  VITRO_STEP void look_up_rounded(RoundedSums& sums, const std::byte* line, int, RoundedTables t, int plane) {
    const auto entry = [&](int at) { return static_cast<std::int8_t>(t[at]); };
    for (int at = 0; at < 64; ++at) {
      const int both = std::to_integer<int>(line[at]), table = at / 16 * 16;
      sums.lane[at % 16] += (entry(table + (both & 15)) + entry(64 + table + (both >> 4))) * (1 << plane);
    }
  }
  static Ints gather_rounded(Ints acc, const RoundedSums& sums) {
    for (int r = 0; r < 16; ++r) acc.lane[r] += sums.lane[r];
    return acc;
  }
};

}  // namespace

constinit const KernelSet kPortableSet = make_kernel_set<Target>("portable");

}  // namespace vitro
