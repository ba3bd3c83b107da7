// Tiles with the dot product instruction (FEAT_DotProd); unnamed namespace as in vector.hpp.
#pragma once
#include "engine/kernels/common/table.hpp"
#include "engine/kernels/neon/register_pass.hpp"
#include "engine/kernels/neon/tile.hpp"

namespace vitro {
namespace {

struct DotTarget : Tile {
  static Ints dot(Ints acc, Quants w, int8x16_t x) {
    for (int i = 0; i < 4; ++i) acc.q[i] = vdotq_s32(acc.q[i], w.q[i], x);
    return acc;
  }
};

// The step of register_pass(): a sum has the four rows of a quarter times one activation row, whose 16 bytes serve four instructions.
template <std::size_t Copies>
struct DotStep {
  static constexpr std::size_t kCopies = Copies;
  static constexpr std::size_t kChunk = 32;
  static void arrange(std::int8_t*, float*, std::int32_t*, std::size_t, std::size_t, std::size_t) {}
  // Sums take turns, since processors that do not reorder wait for each.
  template <int Q, int M, class W>
  [[gnu::always_inline]] static void add(int32x4_t (&sums)[Q * M], const W& weights, const std::byte* lines, const std::int8_t* x,
                                         std::size_t stride) {
    if constexpr (M <= 4) {
      int8x16_t xv[2 * M];
      times<2 * M>([&]<int i>() __attribute__((always_inline)) { xv[i] = vld1q_s8(x + i % M * stride + i / M * 16); });
      times<8>([&]<int i>() __attribute__((always_inline)) {
        times<Q>([&]<int q>() __attribute__((always_inline)) {
          const int8x16_t w = weights.template quad<i % 2 * 4 + i / 2>(lines + 16 * q);
          times<M>([&]<int m>()
                       __attribute__((always_inline)) { sums[q * M + m] = vdotq_laneq_s32(sums[q * M + m], w, xv[i % 2 * M + m], i / 2); });
        });
      });
    } else {
      times<2>([&]<int half>() __attribute__((always_inline)) {
        int8x16_t w[4];
        times<4>([&]<int i>() __attribute__((always_inline)) { w[i] = weights.template quad<4 * half + i>(lines); });
        times<M / 4>([&]<int four>() __attribute__((always_inline)) {
          int8x16_t xv[4];
          times<4>([&]<int m>() __attribute__((always_inline)) { xv[m] = vld1q_s8(x + (4 * four + m) * stride + 16 * half); });
          times<16>([&]<int i>() __attribute__((always_inline)) {
            sums[4 * four + i % 4] = vdotq_laneq_s32(sums[4 * four + i % 4], w[i / 4], xv[i % 4], i / 4);
          });
        });
      });
    }
  }
  template <int m>
  static int32x4_t rows(const std::int32_t* p) {
    return vld1q_dup_s32(p + kCopies * m);
  }
  template <int m, class Lanes>
  static Lanes weights(Lanes quarter) {
    return quarter;
  }
  template <int m>
  static float32x4_t scaled(float32x4_t scale, const float* p) {
    return vmulq_n_f32(scale, p[kCopies * m]);
  }
  template <int M, int First, std::size_t N>
  static void store(const float32x4_t (&acc)[N], float* y, std::size_t stride) {
    times<M>([&]<int m>() __attribute__((always_inline)) { vst1q_f32(y + m * stride, acc[First + m]); });
  }
};

// The members of a set that multiply tiles: Step for batches, dot products for single rows.
template <class Step>
struct Products {
  using Single = DotStep<Step::kCopies>;

  static void q4_0(const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride) {
    multiply_groups<Step, Single>(CodeWeights<4, false, 32>{}, tiles, groups, x, y, y_stride);
  }
  static void q8_0(const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride) {
    multiply_groups<Step, Single>(CodeWeights<8, false, 32>{}, tiles, groups, x, y, y_stride);
  }
  static void values(const ValueTable& values, const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride) {
    const ValueWeights weights{{}, vld1q_s8(values.values), values.factor};
    multiply_groups<Step, Single>(weights, tiles, groups, x, y, y_stride);
  }
  template <int Stored>
  static void codes_of(const CodeForm& form, const std::byte* tiles, std::size_t groups, const Int8Rows& x, float* y,
                       std::size_t y_stride) {
    if (form.zero_point) return multiply_groups<Step, Single>(CodeWeights<Stored, true>{form}, tiles, groups, x, y, y_stride);
    multiply_groups<Step, Single>(CodeWeights<Stored, false>{form}, tiles, groups, x, y, y_stride);
  }
  static void codes(const CodeForm& form, const std::byte* tiles, std::size_t groups, Int8Rows x, float* y, std::size_t y_stride) {
    if (form.stored_bits == 1) return codes_of<1>(form, tiles, groups, x, y, y_stride);
    if (form.stored_bits == 2) return codes_of<2>(form, tiles, groups, x, y, y_stride);
    if (form.stored_bits == 3) return codes_of<3>(form, tiles, groups, x, y, y_stride);
    if (form.stored_bits == 4) return codes_of<4>(form, tiles, groups, x, y, y_stride);
    codes_of<8>(form, tiles, groups, x, y, y_stride);
  }
  static void arrange(const CodeForm& form, std::int8_t* quants, float* scales, std::int32_t* corrections, std::size_t blocks,
                      std::size_t rows) {
    start_sums(form, corrections, blocks * rows);
    Step::arrange(quants, scales, corrections, form.group, blocks, rows);
  }
};

template <class Step>
constexpr KernelSet dot_kernel_set(const char* name) {
  KernelSet set = make_kernel_set<DotTarget>(name);
  set.tiles_q4_0 = Products<Step>::q4_0;
  set.tiles_q8_0 = Products<Step>::q8_0;
  set.tiles_values = Products<Step>::values;
  set.code_dots = Products<Step>::codes;
  set.arrange = Products<Step>::arrange;
  return set;
}

}  // namespace
}  // namespace vitro
