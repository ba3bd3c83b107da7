// What weights are worth to an NPU that knows one scale per output channel (PowerInfer-2, section 2.3.1 footnote 2, and 7.6):
// INT4 per channel, with or without the largest weights of a channel kept apart in INT8.
#pragma once
#include <span>

namespace vitro {

// Share of a channel's weights that are outliers. The paper gives none: assumed, the 1 % that mixed-precision work keeps.
inline constexpr double kOutlierShare = 0.01;

// Rounds a channel (a row of W [N, K]) to the values that it can have: d4 times -7 to 7, with d4 the binary16 nearest to the
// largest magnitude / 7. With outliers > 0 the ceil(outliers K) largest weights are d8 times -127 to 127 instead, d8 from the
// largest of them / 127, and d4 comes from the others. A product of an 11-bit scale and such an integer is exact in float32.
// Requires: finite values.
void round_to_int4_channel(std::span<float> channel, double outliers);

}  // namespace vitro
