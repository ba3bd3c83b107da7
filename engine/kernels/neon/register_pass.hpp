// The int8 loop over tiles for processors with dot product instructions: of a group of 16 rows, Q quarters meet M activation rows, so that
// Q * M sums in integers and as many in floats stay in registers while all blocks pass. A step `S` (dot_target.hpp, neon_i8mm.cpp) says how
// a chunk of 32 columns is added up and which rows the lanes of a sum belong to:
//   add<Q, M>(sums, weights, lines, x, stride): lines of the quarters' chunk; x: the first row's 32 activations, the next are `stride` on;
//   kChunk: from there to those of the next chunk
//   of sum i of M: weights<i>(int32x4_t of a quarter's rows), rows<i>(starts of M activation rows), scaled<i>(scales of a quarter's rows,
//   scales of M activation rows); kCopies: of each start and scale of an activation row
//   arrange(): what KernelSet::arrange does beyond start_sums(); store<M, First>(sums, float*, stride): of a quarter
// Sums begin with kStart, whose bits are those of 1.5 * 2^23: read as a float, start + n is that + n, exactly for |n| < 2^22, and
// one subtraction makes n of it. Conversions of integers have fewer units, or take two turns.
#pragma once
#include "engine/kernels/neon/code_weights.hpp"

namespace vitro {
namespace {

inline constexpr std::int32_t kStart = 0x4b400000;
inline constexpr float kStartFloat = 0x1.8p23f;

// Of x in place: where a block's sums begin, in the place of its corrections. With zero points it is their factor.
inline void start_sums(const CodeForm& form, std::int32_t* corrections, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) corrections[i] = form.zero_point ? corrections[i] / 8 : kStart + corrections[i] / 8 * form.zero;
}

// Zeros of the quarters from `quarter` on, of codes as they lie: those of eight bits less 128.
template <class W, int Q>
[[gnu::always_inline]] inline void zeros_of(const W& weights, const std::byte* lead, std::size_t block, std::size_t quarter,
                                            int32x4_t (&zeros)[Q]) {
  constexpr int kBits = W::kStored == 3 ? 4 : W::kStored;
  const bool of_row = weights.row_scale();
  const std::size_t bit = of_row ? 0 : block * kBits;
  const std::uint32_t mask = of_row ? 0xff : (1u << kBits) - 1;
  const int32x4_t less = vdupq_n_s32(weights.form.bits == 8 ? 128 : 0);
  const std::byte* p = lead + (of_row ? 2 * kTileRows : bit / 8 * kTileRows) + 4 * quarter;
  times<Q>([&]<int q>() __attribute__((always_inline)) {
    std::uint32_t four;
    __builtin_memcpy(&four, p + 4 * q, sizeof four);
    four = four >> bit % 8 & mask * 0x01010101u;
    const uint8x8_t bytes = vcreate_u8(four);
    zeros[q] = vsubq_s32(vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes)))), less);
  });
}

template <class S, class W, int Q, int M>
void register_pass(const W& weights, const std::byte* tile, std::size_t quarter, const Int8Rows& x, std::size_t row, float* y,
                   std::size_t y_stride) {
  const std::size_t group = weights.group(), chunks = group / 32;
  const std::size_t lead_bytes = weights.lead_bytes(x.blocks), block = weights.block_bytes(), head = weights.row_scale() ? 0 : 32;
  const bool cached = W::kUnpacked && weights.form.bits != 8;
  const bool first = !cached && row == 0 && quarter == 0;
  if (first) lanes::prefetch_near(tile, lead_bytes, tiles::kPrefetchBytes);
  const std::byte* w = tile + lead_bytes;
  float32x4_t acc[Q * M];
  times<Q * M>([&]<int i>() __attribute__((always_inline)) { acc[i] = vdupq_n_f32(0); });
  for (std::size_t b = 0, at = row; b < x.blocks; ++b, at += x.rows, w += block) {
    if (first) lanes::prefetch_near(w, block, tiles::kPrefetchBytes);
    int32x4_t sums[Q * M];
    times<Q * M>([&]<int i>() __attribute__((always_inline)) {
      sums[i] = W::kZeroPoints ? vdupq_n_s32(kStart) : S::template rows<i % M>(x.corrections + S::kCopies * at);
    });
    const std::byte* lines = w + head + 16 * quarter;
    const std::int8_t* quants = x.quants + group * at;
    for (std::size_t c = 0; c < chunks; ++c, lines += W::kStored * 64, quants += S::kChunk) {
      S::template add<Q, M>(sums, weights, lines, quants, group);
    }
    if constexpr (W::kUnpacked && !W::kZeroPoints) {
      if (weights.form.step == 2) {
        times<Q * M>([&]<int i>() __attribute__((always_inline)) {
          sums[i] = vsubq_s32(vaddq_s32(sums[i], sums[i]), S::template rows<i % M>(x.corrections + S::kCopies * at));
        });
      }
    }
    if constexpr (W::kZeroPoints) {
      int32x4_t zeros[Q];
      zeros_of<W, Q>(weights, tile, b, quarter, zeros);
      times<Q * M>([&]<int i>() __attribute__((always_inline)) {
        sums[i] = vmlaq_s32(sums[i], S::template weights<i % M>(zeros[i / M]), S::template rows<i % M>(x.corrections + S::kCopies * at));
      });
    }
    const std::byte* scales = (weights.row_scale() ? tile : w) + 8 * quarter;
    float32x4_t scale[Q];
    times<Q>([&]<int q>() __attribute__((always_inline)) { scale[q] = weights.scales(scales + 8 * q); });
    times<Q * M>([&]<int i>() __attribute__((always_inline)) {
      const float32x4_t dots = vsubq_f32(vreinterpretq_f32_s32(sums[i]), vdupq_n_f32(kStartFloat));
      acc[i] = vfmaq_f32(acc[i], dots, S::template scaled<i % M>(scale[i / M], x.scales + S::kCopies * at));
    });
  }
  times<Q>([&]<int q>()
               __attribute__((always_inline)) { S::template store<M, q * M>(acc, y + row * y_stride + 4 * (quarter + q), y_stride); });
}

// Rows that remain of a batch pass by four, by two and alone.
template <class S, class Single, class W>
void multiply_groups(const W& weights, const std::byte* tiles, std::size_t groups, const Int8Rows& x, float* y, std::size_t y_stride) {
  const std::size_t bytes = weights.lead_bytes(x.blocks) + x.blocks * weights.block_bytes();
  for (std::size_t g = 0; g < groups; ++g, tiles += bytes, y += kTileRows) {
    std::size_t m = 0;
    for (; m + 8 <= x.rows; m += 8) {
      for (std::size_t quarter = 0; quarter < 4; ++quarter) register_pass<S, W, 1, 8>(weights, tiles, quarter, x, m, y, y_stride);
    }
    for (; m + 4 <= x.rows; m += 4) {
      for (std::size_t quarter = 0; quarter < 4; quarter += 2) register_pass<S, W, 2, 4>(weights, tiles, quarter, x, m, y, y_stride);
    }
    for (; m + 2 <= x.rows; m += 2) register_pass<S, W, 4, 2>(weights, tiles, 0, x, m, y, y_stride);
    if (m < x.rows) register_pass<Single, W, 4, 1>(weights, tiles, 0, x, m, y, y_stride);
  }
}

}  // namespace
}  // namespace vitro
