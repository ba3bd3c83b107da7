// Quantised activations with NEON's own largest value, narrowing and sum; unnamed namespace as in vector.hpp. Bits are those of lanes.hpp.
#pragma once
#include "engine/kernels/neon/vector.hpp"
#include "engine/kernels/table.hpp"

namespace vitro {
namespace {

// 16 activations. The low byte of x * inverse + kRoundMagic is the quant.
[[gnu::always_inline]] inline int8x16_t quants_of(const float* x, float inverse) {
  const auto shifted = [&](int i) __attribute__((always_inline)) {
    return vreinterpretq_u16_f32(vaddq_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse), vdupq_n_f32(lanes::kRoundMagic)));
  };
  const uint8x16_t first = vreinterpretq_u8_u16(vuzp1q_u16(shifted(0), shifted(1)));
  const uint8x16_t second = vreinterpretq_u8_u16(vuzp1q_u16(shifted(2), shifted(3)));
  return vreinterpretq_s8_u8(vuzp1q_u8(first, second));
}

template <int Block>
void quantise(const float* x, std::size_t blocks, std::size_t stride, std::int8_t* quants, float* scales, std::int32_t* corrections) {
  for (std::size_t b = 0; b < blocks; ++b, x += Block, quants += Block * stride, scales += stride, corrections += stride) {
    float32x4_t most = vdupq_n_f32(0), others = most;
#pragma GCC unroll 16
    for (int i = 0; i < Block; i += 8) {
      most = vmaxnmq_f32(most, vabsq_f32(vld1q_f32(x + i)));
      others = vmaxnmq_f32(others, vabsq_f32(vld1q_f32(x + i + 4)));
    }
    float amax = vmaxnmvq_f32(vmaxnmq_f32(most, others));
    if (amax < 0x1p-100f) amax = 0;
    const float inverse = amax > 0 ? 127.0f / amax : 0.0f;
    int16x8_t sums = vdupq_n_s16(0);
#pragma GCC unroll 8
    for (int i = 0; i < Block; i += 16) {
      const int8x16_t sixteen = quants_of(x + i, inverse);
      vst1q_s8(quants + i, sixteen);
      sums = vpadalq_s8(sums, sixteen);
    }
    *scales = amax / 127.0f;
    *corrections = -8 * vaddlvq_s16(sums);
  }
}

void quantise_blocks(const float* x, std::size_t block, std::size_t blocks, std::size_t stride, std::int8_t* quants, float* scales,
                     std::int32_t* corrections) {
  if (block == 128) return quantise<128>(x, blocks, stride, quants, scales, corrections);
  if (block == 64) return quantise<64>(x, blocks, stride, quants, scales, corrections);
  quantise<32>(x, blocks, stride, quants, scales, corrections);
}

template <class T>
constexpr KernelSet neon_kernel_set(const char* name) {
  KernelSet set = make_kernel_set<T>(name);
  set.quantise = quantise<32>;
  set.quantise_blocks = quantise_blocks;
  return set;
}

}  // namespace
}  // namespace vitro
