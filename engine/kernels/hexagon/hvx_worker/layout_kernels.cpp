// The layouts and conversions that TTS-NPU and T-MAN compare theirs with (layout_stages.hpp), in IEEE floats in the place of qfloat.
#include "engine/kernels/hexagon/layout_stages.hpp"

#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_halves.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

union alignas(kVectorBytes) Order {
  uint8_t control[kVectorBytes];
  HVX_Vector vector;
};
union alignas(kVectorBytes) Places {
  uint16_t offset[kVectorBytes / 2];
  HVX_Vector vector;
};

}  // namespace

extern "C" {

void float_uncoalesced_q4(const unsigned char* blocks, const uint16_t* table, uint32_t groups, uint16_t* w) {
  Order order;
  spread_codes(order.control);
  uncoalesced_q4<HvxHalves>(blocks, *vectors_at(table), order.vector, groups / kBlocksTogether, vectors_at(w));
}

void float_scatter_q4(const unsigned char* rows, const uint16_t* table, uint32_t count, uint32_t columns, uint16_t* w) {
  Places places;
  for (uint32_t lane = 0; lane < kVectorBytes / 2; ++lane) {
    places.offset[lane] = static_cast<uint16_t>(sizeof(uint16_t) * tile_place(scattered_element(lane & 31), 0));
  }
  const uint32_t groups = columns / kTile, tile = kTileElements * sizeof(uint16_t);
  for (uint32_t n = 0; n < count; ++n, rows += groups * kQ4Block) {
    const uintptr_t strip = reinterpret_cast<uintptr_t>(w) + n / kTile * groups * tile;
    scatter_q4<HvxHalves>(rows, *vectors_at(table), places.vector, groups, tile, strip + sizeof(uint16_t) * tile_place(0, n % kTile));
  }
}

void float_convert_planes_w4(const unsigned char* planes, const float* scales, const float* zeros, uint32_t trips, uint16_t* w) {
  convert_planes_w4<HvxHalves>(vectors_at(planes), vectors_at(scales), vectors_at(zeros), trips, vectors_at(w));
}

void float_convert_planes_w4_in_halves(const unsigned char* planes, const uint16_t* scales, const uint16_t* zeros, uint32_t trips,
                                       uint16_t* w) {
  convert_planes_w4_in_halves<HvxHalves>(vectors_at(planes), vectors_at(scales), vectors_at(zeros), trips, vectors_at(w));
}

}  // extern "C"

}  // namespace vitro::hexagon
