#include "engine/kernels/hexagon/hvx_worker/matrix_unit.hpp"

#include "engine/kernels/hexagon/matrix_call.h"

// Writes nothing else to memory: whoever watches it gets the address of the call. In a packet of its own: a load beside it would be of what
// was there before the answer.
extern "C" [[gnu::noinline]] uint32_t ask_matrix_unit(volatile matrix_call* call) {
  __asm__ volatile("{ memw(%0+#0) = %1 }" : : "r"(&call->state), "r"(kMatrixAsked) : "memory");
  return call->state;
}

namespace vitro::hexagon {
namespace {

uint32_t address(const void* at) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at)); }

template <class Element>
void multiply(HmxModel& unit, const Element* x, const Element* w, uint32_t tiles) {
  matrix_call call{0, kMatrixMagic, address(&unit), address(x), address(w), tiles, sizeof(Element)};
  if (ask_matrix_unit(&call) != kMatrixDone) unit.multiply(x, w, tiles);
}

}  // namespace

void multiply_on(HmxModel& unit, const uint16_t* x, const uint16_t* w, uint32_t tiles) { multiply(unit, x, w, tiles); }
void multiply_on(HmxModel& unit, const int8_t* x, const int8_t* w, uint32_t tiles) { multiply(unit, x, w, tiles); }

}  // namespace vitro::hexagon
