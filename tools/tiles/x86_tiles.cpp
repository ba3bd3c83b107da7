// Register tiles of int8 products on x86, by turns in one process: the loop over blocks of engine/kernels/common/tiles.hpp with M rows of
// activations and H registers of weight rows, over weights that lie as packed files have them (engine/quant/tiles.hpp). All tiles have to
// give the same bits. docs/design/data-reorder.md has what came out; tools/tiles/measure.py compiles and runs it.
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

namespace {

constexpr int kTokens = 48, kRows = 192, kColumns = 4096, kBlocks = kColumns / 32;  // multiples of every tile; in the second cache
constexpr int kRepeat = 8;  // in a round: long beside a tick of the clock

template <int N, class F>
[[gnu::always_inline]] inline void times(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { (f.template operator()<i>(), ...); }
  (std::make_integer_sequence<int, N>{});
}

#ifdef __AVX512VNNI__
struct Lanes {
  using I = __m512i;
  using F = __m512;
  static constexpr int kRows = 16;
  static constexpr int kOffset8 = 128;  // that the instruction's unsigned side has more of q8_0
  static I load(const void* p) { return _mm512_loadu_si512(p); }
  static I all(std::int32_t x) { return _mm512_set1_epi32(x); }
  static I low(I v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
  static I high(I v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15)); }
  static I bytes(I v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
  static void add(I& acc, I w, I x) { asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x)); }
  static void add_signed(I& acc, I w, I x) { add(acc, w, x); }
  static I pairs(I acc, I w, I x) { return add(acc, w, x), acc; }
  static I widen(I pairs) { return pairs; }
  static I sum(I a, I b) { return _mm512_add_epi32(a, b); }
  static F halves(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  static F floats(I v) { return _mm512_cvtepi32_ps(v); }
  static F all(float x) { return _mm512_set1_ps(x); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F product(F a, F b) { return _mm512_mul_ps(a, b); }
  static F load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
};
#else
struct Lanes {
  using I = __m256i;
  using F = __m256;
  static constexpr int kRows = 8, kOffset8 = 0;
  static I load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static I all(std::int32_t x) { return _mm256_set1_epi32(x); }
  static I low(I v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
  static I high(I v) { return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)); }
  static I bytes(I v) { return v; }
  static void add(I& acc, I w, I x) { acc = _mm256_add_epi32(acc, widen(_mm256_maddubs_epi16(w, x))); }
  static void add_signed(I& acc, I w, I x) { add(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); }
  static I pairs(I acc, I w, I x) { return _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, x)); }  // of nibbles, a block fits in 16 bits
  static I widen(I pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
  static I sum(I a, I b) { return _mm256_add_epi32(a, b); }
  static F halves(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
  static F floats(I v) { return _mm256_cvtepi32_ps(v); }
  static F all(float x) { return _mm256_set1_ps(x); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F product(F a, F b) { return _mm256_mul_ps(a, b); }
  static F load_floats(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
};
#endif

struct Problem {
  explicit Problem(int bits) : block(32 + 64 * bits), weights(std::size_t{kRows / 16} * kBlocks * block) {
    std::uint64_t state = 1;
    const auto rng = [&] { return static_cast<std::uint32_t>((state = state * 6364136223846793005u + 1442695040888963407u) >> 33); };
    for (std::byte& byte : weights) byte = std::byte(rng() & 255);
    for (std::size_t at = 0; at < weights.size(); at += block) {
      for (int r = 0; r < 16; ++r) {
        const std::uint16_t half = static_cast<std::uint16_t>(0x2c00 | (rng() & 1023));  // 1/16 to 1/8
        std::memcpy(weights.data() + at + 2 * r, &half, 2);
      }
    }
    for (std::int8_t& x : quants) x = static_cast<std::int8_t>(static_cast<int>(rng() % 255) - 127);
    for (float& scale : scales) scale = 0.01f + static_cast<float>(rng() % 100) * 1e-4f;
    const int offset = bits == 4 ? 8 : Lanes::kOffset8;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      int sum = 0;
      for (int k = 0; k < 32; ++k) sum += quants[32 * i + k];
      starts[i] = -offset * sum;
    }
  }
  std::size_t block;
  std::vector<std::byte> weights;
  // By block, then row, as Int8Rows has them.
  std::vector<std::int8_t> quants = std::vector<std::int8_t>(std::size_t{kTokens} * kColumns);
  std::vector<float> scales = std::vector<float>(std::size_t{kTokens} * kBlocks);
  std::vector<std::int32_t> starts = std::vector<std::int32_t>(std::size_t{kTokens} * kBlocks);
  std::vector<float> y = std::vector<float>(std::size_t{kTokens} * kRows);
};

Lanes::I four(const std::int8_t* x) {
  std::int32_t bits;
  std::memcpy(&bits, x, 4);
  return Lanes::all(bits);
}

// kNarrow: sums of nibbles in 16 bits meanwhile, where the instruction has them. kMemory: float sums are not in registers.
template <int M, int H, bool kNibbles, bool kNarrow, bool kMemory>
void tile(const Problem& p, int token, int register_row, float* out) {
  using L = Lanes;
  constexpr int kInGroup = 16 / L::kRows;
  const std::byte* w[H];
  times<H>([&]<int h>() __attribute__((always_inline)) {
    const int at = register_row + h;
    w[h] = p.weights.data() + std::size_t(at / kInGroup) * kBlocks * p.block + std::size_t(at % kInGroup) * 4 * L::kRows;
  });
  const int half = register_row % kInGroup;
  L::F acc[kMemory ? 1 : H * M];
  alignas(64) float memory[kMemory ? H * M * L::kRows : 1] = {};
  if constexpr (!kMemory) times<H * M>([&]<int i>() __attribute__((always_inline)) { acc[i] = L::all(0.0f); });
  for (int b = 0; b < kBlocks; ++b) {
    const std::size_t at = std::size_t(b) * kTokens + token, block = b * p.block;
    const std::int8_t* x = p.quants.data() + 32 * at;
    L::I sums[H * M];
    times<H * M>([&]<int i>() __attribute__((always_inline)) { sums[i] = kNarrow ? L::all(0) : L::all(p.starts[at + i % M]); });
    const auto add = [&](L::I& sum, L::I v, L::I xv) __attribute__((always_inline)) {
      if constexpr (kNarrow) sum = L::pairs(sum, v, xv);
      else if constexpr (kNibbles) L::add(sum, v, xv);
      else L::add_signed(sum, v, xv);
    };
    times<kNibbles ? 4 : 8>([&]<int j>() __attribute__((always_inline)) {
      L::I v[H];
      times<H>([&]<int h>() __attribute__((always_inline)) { v[h] = L::load(w[h] + block + 32 + 64 * j); });
      if constexpr (kNibbles) {
        times<M>([&]<int m>() __attribute__((always_inline)) {
          const L::I xv = four(x + 32 * m + 4 * j);
          times<H>([&]<int h>() __attribute__((always_inline)) { add(sums[h * M + m], L::low(v[h]), xv); });
        });
        times<M>([&]<int m>() __attribute__((always_inline)) {
          const L::I xv = four(x + 32 * m + 16 + 4 * j);
          times<H>([&]<int h>() __attribute__((always_inline)) { add(sums[h * M + m], L::high(v[h]), xv); });
        });
      } else {
        times<M>([&]<int m>() __attribute__((always_inline)) {
          const L::I xv = four(x + 32 * m + 4 * j);
          times<H>([&]<int h>() __attribute__((always_inline)) { add(sums[h * M + m], L::bytes(v[h]), xv); });
        });
      }
    });
    times<H>([&]<int h>() __attribute__((always_inline)) {
      const int part = (half + h) % kInGroup;  // the pointer stands 4 bytes a row into the group, the scales 2
      const L::F scale = L::halves(w[h] + block - part * 2 * L::kRows);
      times<M>([&]<int m>() __attribute__((always_inline)) {
        L::I sum = sums[h * M + m];
        if constexpr (kNarrow) sum = L::sum(L::widen(sum), L::all(p.starts[at + m]));
        const L::F both = L::product(scale, L::all(p.scales[at + m]));
        if constexpr (kMemory) {
          float* kept = memory + (h * M + m) * L::kRows;
          L::store(kept, L::fma(L::floats(sum), both, L::load_floats(kept)));
        } else {
          acc[h * M + m] = L::fma(L::floats(sum), both, acc[h * M + m]);
        }
      });
    });
  }
  times<H * M>([&]<int i>() __attribute__((always_inline)) {
    float* to = out + std::size_t(token + i % M) * kRows + (register_row + i / M) * L::kRows;
    if constexpr (kMemory) L::store(to, L::load_floats(memory + i * L::kRows));
    else L::store(to, acc[i]);
  });
}

template <int M, int H, bool kNibbles, bool kNarrow = false, bool kMemory = false>
void product(Problem& p) {
  static_assert(kTokens % M == 0 && kRows / Lanes::kRows % H == 0);
  for (int at = 0; at < kRows / Lanes::kRows; at += H) {
    for (int token = 0; token < kTokens; token += M) tile<M, H, kNibbles, kNarrow, kMemory>(p, token, at, p.y.data());
  }
}

struct Way {
  const char* name;
  void (*q4)(Problem&);
  void (*q8)(Problem&);
};
#ifdef __AVX512VNNI__
template <int M, int H>
constexpr Way way(const char* name) {
  return {name, product<M, H, true>, product<M, H, false>};
}
constexpr Way kWays[] = {way<8, 1>("8 x 16"), way<12, 1>("12 x 16"), way<6, 2>("6 x 32"), way<4, 2>("4 x 32"), way<4, 3>("4 x 48"),
                         way<4, 4>("4 x 64")};
#else
template <int M, int H>
constexpr Way way(const char* name) {
  return {name, product<M, H, true, true>, product<M, H, false>};
}
constexpr Way kWays[] = {{"2 x 16, sums of 32 bits", product<2, 2, true>, product<2, 2, false>},
                         way<2, 2>("2 x 16"),
                         way<4, 1>("4 x 8"),
                         way<3, 2>("3 x 16"),
                         way<4, 2>("4 x 16"),
                         way<8, 1>("8 x 8"),
                         {"12 x 8, float sums in memory", product<12, 1, true, true, true>, product<12, 1, false, false, true>}};
#endif

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }  // of the processor

}  // namespace

// A line for each tile and format: name, format, the first tile's time over its own (lower quartile, median, upper quartile), and its
// multiply-adds in 1e9 a second.
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 31;
  if (rounds < 1) return std::fprintf(stderr, "%s: rounds: \"%s\" (expected 1 or more)\n", argv[0], argv[1]), 2;
  for (const int bits : {4, 8}) {
    Problem problem(bits);
    const auto run = [&](const Way& way) { (bits == 4 ? way.q4 : way.q8)(problem); };
    run(kWays[0]);
    const std::vector<float> expected = problem.y;
    std::vector<std::vector<double>> taken(std::size(kWays));
    for (int round = -1; round < rounds; ++round) {
      for (std::size_t i = 0; i < std::size(kWays); ++i) {
        std::fill(problem.y.begin(), problem.y.end(), 0.0f);
        const double begin = seconds();
        for (int n = 0; n < kRepeat; ++n) run(kWays[i]);
        if (round >= 0) taken[i].push_back((seconds() - begin) / kRepeat);
        if (std::memcmp(problem.y.data(), expected.data(), expected.size() * sizeof(float)) != 0) {
          return std::fprintf(stderr, "%s, %d bits: other bits than %s\n", kWays[i].name, bits, kWays[0].name), 1;
        }
      }
    }
    for (std::size_t i = 0; i < std::size(kWays); ++i) {
      std::vector<double> ratios, own = taken[i];
      for (int round = 0; round < rounds; ++round) ratios.push_back(taken[0][round] / taken[i][round]);
      std::sort(ratios.begin(), ratios.end());
      std::sort(own.begin(), own.end());
      const double rate = double{kTokens} * kRows * kColumns / own[rounds / 2] * 1e-9;
      std::printf("%s\tq%d_0\t%.3f\t%.3f\t%.3f\t%.1f\n", kWays[i].name, bits, ratios[rounds / 4], ratios[rounds / 2],
                  ratios[rounds * 3 / 4], rate);
    }
  }
}
