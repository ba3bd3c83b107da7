// The step of tiles with the dot product instruction (FEAT_DotProd); unnamed namespace as in vector.hpp.
#pragma once
#include "engine/kernels/neon/vector.hpp"

namespace vitro {
namespace {

struct DotTarget : Tile {
  static Ints dot(Ints acc, Quants w, int8x16_t x) {
    for (int i = 0; i < 4; ++i) acc.q[i] = vdotq_s32(acc.q[i], w.q[i], x);
    return acc;
  }
};

}  // namespace
}  // namespace vitro
