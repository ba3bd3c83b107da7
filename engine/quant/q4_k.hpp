// Quantisation into GGUF's q4_k: a search for the eight scales and minima of a block that leave little squared error.
#pragma once
#include <cstddef>

namespace vitro {

// One block: 256 values into 144 bytes. For each 32 values the scale and the minimum (never above zero) start from the range,
// shrunk to 1/0.9 to 1/1.3 of itself in steps of 0.1, and are refined once by least squares for their codes; the best of these goes on.
// Scales and minima are then rounded to six bits of the block's largest ones, and the codes are chosen for what came of them, nearest,
// halfway up. The same bits on every target. Requires: finite values.
void quantise_q4_k(const float* in, std::byte* out);

}  // namespace vitro
