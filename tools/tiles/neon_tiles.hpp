// Other ways to take tiles through the loop of engine/kernels/neon/register_pass.hpp, for prices alone (measure.py): with float sums in
// memory, and over weights that lie in columns of eight, as smmla takes them. Behind the text of neon_i8mm.cpp.
#pragma once

namespace vitro {
namespace {

// The loop over blocks with as many sums in integers as registers have room for, and floats that come from memory for each block.
template <class S, class W, int Q, int M>
void memory_pass(const W& weights, const std::byte* w, const Int8Rows& x, std::size_t row, float* sums_of_floats) {
  for (std::size_t b = 0, at = row; b < x.blocks; ++b, at += x.rows, w += weights.block_bytes()) {
    for (std::size_t line = 0; line < weights.block_bytes(); line += 64) lanes::prefetch(w + line, tiles::kPrefetchBytes);
    int32x4_t sums[Q * M];
    times<Q * M>([&]<int i>() __attribute__((always_inline)) { sums[i] = S::template rows<i % M>(x.corrections + S::kCopies * at); });
    S::template add<Q, M>(sums, weights, w + 32, x.quants + 32 * at, 32);
    float32x4_t scale[Q];
    times<Q>([&]<int q>() __attribute__((always_inline)) { scale[q] = weights.scales(w + 8 * q); });
    times<Q * M>([&]<int i>() __attribute__((always_inline)) {
      const float32x4_t dots = vsubq_f32(vreinterpretq_f32_s32(sums[i]), vdupq_n_f32(kStartFloat));
      float* const kept = sums_of_floats + 4 * i;
      vst1q_f32(kept, vfmaq_f32(vld1q_f32(kept), dots, S::template scaled<i % M>(scale[i / M], x.scales + S::kCopies * at)));
    });
  }
}

// The dot products of DotStep for more than one quarter with many activation rows, whose registers serve all quarters.
struct WideDotStep : DotStep<MatrixStep::kCopies> {
  template <int Q, int M, class W>
  [[gnu::always_inline]] static void add(int32x4_t (&sums)[Q * M], const W& weights, const std::byte* lines, const std::int8_t* x,
                                         std::size_t stride) {
    times<2>([&]<int half>() __attribute__((always_inline)) {
      int8x16_t w[4 * Q];
      times<4 * Q>([&]<int i>() __attribute__((always_inline)) { w[i] = weights.template quad<4 * half + i % 4>(lines + 16 * (i / 4)); });
      times<M / 4>([&]<int four>() __attribute__((always_inline)) {
        int8x16_t xv[4];
        times<4>([&]<int m>() __attribute__((always_inline)) { xv[m] = vld1q_s8(x + (4 * four + m) * stride + 16 * half); });
        times<16 * Q>([&]<int i>() __attribute__((always_inline)) {
          constexpr int kSum = i / 16 * M + 4 * four + i % 4, kColumns = i % 16 / 4;
          sums[kSum] = vdotq_laneq_s32(sums[kSum], w[i / 16 * 4 + kColumns], xv[i % 4], kColumns);
        });
      });
    });
  }
};

// Weights in columns of eight: of a quarter's lines (64 bytes apart) each has eight columns of two rows, or of nibbles 16.
template <int Stored>
struct OctetWeights : CodeWeights<Stored, false, 32> {
  template <int Octet, int Half>
  int8x16_t octet(const std::byte* p) const {
    const int line = Stored == 8 ? 2 * Octet + Half : 2 * (Octet % 2) + Half;
    const uint8x16_t bytes = vld1q_u8(reinterpret_cast<const std::uint8_t*>(p) + 64 * line);
    if constexpr (Stored == 4) return vreinterpretq_s8_u8(field<Octet / 2 * 4, 15>(bytes));
    return vreinterpretq_s8_u8(bytes);
  }
};

// One activation row over such weights: sdot adds four columns to each lane, so the two halves of a row's eight meet at a block's end.
template <int Stored>
void octet_single(const OctetWeights<Stored>& weights, const std::byte* w, const Int8Rows& x, float* y) {
  float32x4_t acc[4];
  times<4>([&]<int i>() __attribute__((always_inline)) { acc[i] = vdupq_n_f32(0); });
  for (std::size_t b = 0; b < x.blocks; ++b, w += weights.block_bytes()) {
    for (std::size_t line = 0; line < weights.block_bytes(); line += 64) lanes::prefetch(w + line, tiles::kPrefetchBytes);
    int32x4_t sums[8];
    times<8>([&]<int i>() __attribute__((always_inline)) { sums[i] = vdupq_n_s32(0); });
    times<4>([&]<int o>() __attribute__((always_inline)) {
      const int8x16_t xv = vreinterpretq_s8_s64(vld1q_dup_s64(reinterpret_cast<const std::int64_t*>(x.quants + 32 * b + 8 * o)));
      times<8>([&]<int i>() __attribute__((always_inline)) {
        sums[i] = vdotq_s32(sums[i], weights.template octet<o, i % 2>(w + 32 + 16 * (i / 2)), xv);
      });
    });
    times<4>([&]<int q>() __attribute__((always_inline)) {
      const int32x4_t four = vaddq_s32(vpaddq_s32(sums[2 * q], sums[2 * q + 1]), vld1q_dup_s32(x.corrections + b));
      const float32x4_t dots = vsubq_f32(vreinterpretq_f32_s32(four), vdupq_n_f32(kStartFloat));
      acc[q] = vfmaq_f32(acc[q], dots, vmulq_n_f32(weights.scales(w + 8 * q), x.scales[b]));
    });
  }
  times<4>([&]<int q>() __attribute__((always_inline)) { vst1q_f32(y + 4 * q, acc[q]); });
}

}  // namespace
}  // namespace vitro
