// Baseline Armv8 NEON: products of bytes widen to 16 bits, pairs of them to 32.
#include "engine/kernels/common/table.hpp"
#include "engine/kernels/neon/sets.hpp"
#include "engine/kernels/neon/tile.hpp"

namespace vitro {
namespace {

struct Target : Tile {
  static Ints dot(Ints acc, Quants w, int8x16_t four) {
    const int8x8_t xv = vget_low_s8(four);
    for (int i = 0; i < 4; ++i) {
      const int32x4_t rows01 = vpaddlq_s16(vmull_s8(vget_low_s8(w.q[i]), xv)), rows23 = vpaddlq_s16(vmull_s8(vget_high_s8(w.q[i]), xv));
      acc.q[i] = vaddq_s32(acc.q[i], vpaddq_s32(rows01, rows23));
    }
    return acc;
  }
};

}  // namespace

constinit const KernelSet kNeonSet = make_kernel_set<Target>("neon");

}  // namespace vitro
