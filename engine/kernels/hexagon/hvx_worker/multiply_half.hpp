// Products of fp16 as IEEE rounds them, which this worker makes of HVX integers (half_kernels.cpp).
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"

namespace vitro::hexagon {

// Lane by lane of 64 halves. Requires: finite operands.
HVX_Vector multiply_half(HVX_Vector a, HVX_Vector b);

}  // namespace vitro::hexagon
