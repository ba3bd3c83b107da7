// Matrix multiplications of the worker: by the emulator's matrix unit where there is one (matrix_call.h), by its own code elsewhere.
#pragma once
#include "engine/kernels/hexagon/hmx.hpp"

namespace vitro::hexagon {

// unit.multiply(x, w, tiles).
void multiply_on(HmxModel& unit, const uint16_t* x, const uint16_t* w, uint32_t tiles);
void multiply_on(HmxModel& unit, const int8_t* x, const int8_t* w, uint32_t tiles);

}  // namespace vitro::hexagon
