// FEAT_I8MM: smmla multiplies 2 rows x 8 k by 8 k x 2 activation rows, so it serves batches; single rows use the dot
// product. The order of integer additions differs, the sums do not.
#include "engine/kernels/neon/dot_target.hpp"
#include "engine/kernels/neon/sets.hpp"

namespace vitro {
namespace {

// The step of register_pass() for an even number of activation rows. A sum has two weight rows times two activation rows: w0 x0, w0 x1,
// w1 x0, w1 x1. Of a quarter and a pair of activation rows there are two, of rows 0 and 1, and of 2 and 3. Pairs of activation rows lie by
// turns of 8 columns, which is the instruction's other operand.
struct MatrixStep {
  static constexpr std::size_t kCopies = 2;
  static constexpr std::size_t kChunk = 64;
  // In place.
  template <std::size_t Group>
  static void pair_rows(std::int8_t* quants, std::size_t blocks, std::size_t rows) {
    for (std::size_t b = 0; b < blocks; ++b, quants += rows * Group) {
      for (std::size_t m = 0; m + 2 <= rows; m += 2) {
        std::int8_t* to = quants + m * Group;
        int64x2_t x[Group / 8];
        times<Group / 8>([&]<int i>() __attribute__((always_inline)) { x[i] = vreinterpretq_s64_s8(vld1q_s8(to + 16 * i)); });
        times<Group / 16>([&]<int i>() __attribute__((always_inline)) {
          vst1q_s8(to + 32 * i, vreinterpretq_s8_s64(vzip1q_s64(x[i], x[Group / 16 + i])));
          vst1q_s8(to + 32 * i + 16, vreinterpretq_s8_s64(vzip2q_s64(x[i], x[Group / 16 + i])));
        });
      }
    }
  }
  // a, b of a pair becomes a, b, a, b, and a row that is left a, a: in place from behind.
  template <class Value>
  static void copy_twice(Value* values, std::size_t blocks, std::size_t rows) {
    for (std::size_t b = blocks; b-- > 0;) {
      for (std::size_t m = (rows + 1) / 2 * 2; m > 0; m -= 2) {
        const std::size_t at = b * rows + m - 2, together = m <= rows ? 2 : 1;
        const Value first = values[at], second = values[at + together - 1];
        Value* to = values + 2 * at;
        to[0] = first;
        to[1] = second;
        if (together == 1) continue;
        to[2] = first;
        to[3] = second;
      }
    }
  }
  static void arrange(std::int8_t* quants, float* scales, std::int32_t* starts, std::size_t group, std::size_t blocks, std::size_t rows) {
    copy_twice(scales, blocks, rows);
    copy_twice(starts, blocks, rows);
    if (group == 128) return pair_rows<128>(quants, blocks, rows);
    if (group == 64) return pair_rows<64>(quants, blocks, rows);
    pair_rows<32>(quants, blocks, rows);
  }
  template <int Q, int M, class W>
  [[gnu::always_inline]] static void add(int32x4_t (&sums)[Q * M], const W& weights, const std::byte* lines, const std::int8_t* x,
                                         std::size_t stride) {
    times<Q>([&]<int q>() __attribute__((always_inline)) {
      times<4>([&]<int i>() __attribute__((always_inline)) {
        constexpr int kOctet = i % 2 * 2 + i / 2;  // two that nibbles of the same lines have stand side by side
        const int8x16_t rows01 = weights.template octet<kOctet, 0>(lines + 16 * q),
                        rows23 = weights.template octet<kOctet, 1>(lines + 16 * q);
        times<M / 2>([&]<int pair>() __attribute__((always_inline)) {
          const int8x16_t xv = vld1q_s8(x + 2 * pair * stride + 16 * kOctet);
          int32x4_t &first = sums[q * M + 2 * pair], &second = sums[q * M + 2 * pair + 1];
          first = vmmlaq_s32(first, rows01, xv);
          second = vmmlaq_s32(second, rows23, xv);
        });
      });
    });
  }
  template <int i>
  static int32x4_t rows(const std::int32_t* p) {
    return vld1q_s32(p + i / 2 * 4);
  }
  template <int i>
  static int32x4_t weights(int32x4_t quarter) {
    return i % 2 == 0 ? vzip1q_s32(quarter, quarter) : vzip2q_s32(quarter, quarter);
  }
  template <int i>
  static float32x4_t scaled(float32x4_t scale, const float* p) {
    return vmulq_f32(i % 2 == 0 ? vzip1q_f32(scale, scale) : vzip2q_f32(scale, scale), vld1q_f32(p + i / 2 * 4));
  }
  template <int M, int First, std::size_t N>
  static void store(const float32x4_t (&acc)[N], float* y, std::size_t stride) {
    times<M / 2>([&]<int pair>() __attribute__((always_inline)) {
      const float32x4_t rows01 = acc[First + 2 * pair], rows23 = acc[First + 2 * pair + 1];
      vst1q_f32(y + 2 * pair * stride, vuzp1q_f32(rows01, rows23));
      vst1q_f32(y + (2 * pair + 1) * stride, vuzp2q_f32(rows01, rows23));
    });
  }
};

}  // namespace

constinit const KernelSet kNeonI8mmSet = dot_kernel_set<MatrixStep>("neon-i8mm");

}  // namespace vitro
