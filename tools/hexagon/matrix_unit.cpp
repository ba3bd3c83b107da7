// The matrix unit of the emulated Hexagon: the same HmxModel that the worker has, run by this machine's own instructions.
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/matrix_call.h"

// `base`: where the worker's address 0 lies in the emulator.
extern "C" void vitro_matrix_unit(unsigned char* base, uint32_t address) {
  using vitro::hexagon::HmxModel;
  auto& call = *reinterpret_cast<matrix_call*>(base + address);
  if (call.magic != kMatrixMagic || call.state != kMatrixAsked) return;
  auto& unit = *reinterpret_cast<HmxModel*>(base + call.unit);
  const unsigned char *x = base + call.x, *w = base + call.w;
  if (call.bytes == 1) {
    unit.multiply(reinterpret_cast<const int8_t*>(x), reinterpret_cast<const int8_t*>(w), call.tiles);
  } else {
    unit.multiply(reinterpret_cast<const uint16_t*>(x), reinterpret_cast<const uint16_t*>(w), call.tiles);
  }
  call.state = kMatrixDone;
}
