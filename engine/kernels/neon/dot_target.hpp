// The step of tiles with the dot product instruction (FEAT_DotProd); unnamed namespace as in vector.hpp.
#pragma once
#include "engine/kernels/neon/vector.hpp"

namespace vitro {
namespace {

struct DotTarget : Tile {
  static Ints dot(Ints acc, Quants w, const std::int8_t* x) {
    const int8x16_t xv = vreinterpretq_s8_s32(vdupq_n_s32(four(x)));
    for (int i = 0; i < 4; ++i) acc.q[i] = vdotq_s32(acc.q[i], w.q[i], xv);
    return acc;
  }
};

}  // namespace
}  // namespace vitro
