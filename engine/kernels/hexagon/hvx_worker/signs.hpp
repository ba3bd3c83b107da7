// What turns four activations, a word in each lane, into all of their signed sums (vrmpy).
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"

namespace vitro::hexagon {

// Signs of the four activations in entry e = lane % 16: bit j set means plus.
alignas(kVectorBytes) constinit inline const struct Signs {
  int8_t lane[32][4];
  constexpr Signs() : lane{} {
    for (int e = 0; e < 32; ++e) {
      for (int j = 0; j < 4; ++j) lane[e][j] = (e >> j & 1) != 0 ? 1 : -1;
    }
  }
} kSigns;

// The same of the first two activations, and of the other two, as halfwords.
alignas(kVectorBytes) constinit inline const struct WideSigns {
  int16_t lane[2][32][2];
  constexpr WideSigns() : lane{} {
    for (int e = 0; e < 32; ++e) {
      for (int j = 0; j < 4; ++j) lane[j / 2][e][j % 2] = (e >> j & 1) != 0 ? 1 : -1;
    }
  }
} kWideSigns;

}  // namespace vitro::hexagon
