// FEAT_I8MM: smmla multiplies 2 rows x 8 k by 8 k x 2 activation rows, so it serves batches; single rows use the dot
// product. The order of integer additions differs, the sums do not.
#include "engine/kernels/neon/dot_target.hpp"
#include "engine/kernels/neon/sets.hpp"

namespace vitro {
namespace {

// Two activation rows against 16 weight rows: quarter i, half h holds rows 4i + 2h, 4i + 2h + 1, each by both.
struct Pair {
  int32x4_t sums[4][2];

  Pair() {
    for (auto& quarter : sums) quarter[0] = quarter[1] = vdupq_n_s32(0);
  }
  // `first` holds 4 k of each row, `second` the next 4; x points at these 8 k of the first activation row; the other
  // row's are 32 bytes on.
  void add(DotTarget::Quants first, DotTarget::Quants second, const std::int8_t* x) {
    const int8x16_t xv = vcombine_s8(vld1_s8(x), vld1_s8(x + 32));
    for (int i = 0; i < 4; ++i) {
      const int32x4_t a = vreinterpretq_s32_s8(first.q[i]), b = vreinterpretq_s32_s8(second.q[i]);
      sums[i][0] = vmmlaq_s32(sums[i][0], vreinterpretq_s8_s32(vzip1q_s32(a, b)), xv);
      sums[i][1] = vmmlaq_s32(sums[i][1], vreinterpretq_s8_s32(vzip2q_s32(a, b)), xv);
    }
  }
  void add_to(DotTarget::Ints& one, DotTarget::Ints& two) const {
    for (int i = 0; i < 4; ++i) {
      one.q[i] = vaddq_s32(one.q[i], vuzp1q_s32(sums[i][0], sums[i][1]));
      two.q[i] = vaddq_s32(two.q[i], vuzp2q_s32(sums[i][0], sums[i][1]));
    }
  }
};

template <class T>
struct Q8 : tiles::Q8<T> {
  template <int M>
  [[gnu::always_inline]] static inline void dot(typename T::Ints (&acc)[M], const std::byte* quants, const std::int8_t* x) {
    if constexpr (M == 1) return tiles::Q8<T>::dot(acc, quants, x);
    for (int m = 0; m + 1 < M; m += 2) {
      Pair pair;
      for (int j = 0; j < 8; j += 2) pair.add(T::quants(quants + 64 * j), T::quants(quants + 64 * j + 64), x + 32 * m + 4 * j);
      pair.add_to(acc[m], acc[m + 1]);
    }
  }
};

template <class T>
struct Q4 : tiles::Q4<T> {
  template <int M>
  [[gnu::always_inline]] static inline void dot(typename T::Ints (&acc)[M], const std::byte* quants, const std::int8_t* x) {
    if constexpr (M == 1) return tiles::Q4<T>::dot(acc, quants, x);
    for (int m = 0; m + 1 < M; m += 2) {
      Pair pair;
      for (int j = 0; j < 4; j += 2) {
        const auto first = T::nibbles(quants + 64 * j), second = T::nibbles(quants + 64 * j + 64);
        pair.add(first.low, second.low, x + 32 * m + 4 * j);
        pair.add(first.high, second.high, x + 32 * m + 16 + 4 * j);
      }
      pair.add_to(acc[m], acc[m + 1]);
    }
  }
};

constexpr KernelSet with_matrix_multiply() {
  KernelSet set = make_kernel_set<DotTarget>("neon-i8mm");
  set.tiles_q4_0 = tiles::multiply<DotTarget, Q4>;
  set.tiles_q8_0 = tiles::multiply<DotTarget, Q8>;
  return set;
}

}  // namespace

constinit const KernelSet kNeonI8mmSet = with_matrix_multiply();

}  // namespace vitro
