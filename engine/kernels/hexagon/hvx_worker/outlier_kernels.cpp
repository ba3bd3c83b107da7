// Outliers of w4_outliers into fp16 tiles, in IEEE floats in the place of qfloat.
#include "engine/kernels/hexagon/hvx_worker/hvx_halves.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/outlier_strips.hpp"

namespace vitro::hexagon {

extern "C" [[gnu::noinline]] void float_place_outliers(const unsigned char* strip, uint32_t columns, uint32_t first, uint32_t end,
                                                       uint16_t* tiles) {
  const OutlierStrip at{columns};
  const auto* ends = reinterpret_cast<const uint16_t*>(strip + at.ends());
  const HVX_Vector scales = *vectors_at(strip + at.outlier_scales());
  uint32_t outlier = first == 0 ? 0 : ends[first - 1];
  for (uint32_t tile = first; tile < end;) {  // a span of offsets at a time, which may begin before the first tile
    const uint32_t span = tile / kSpanTiles * kSpanTiles, last = span + kSpanTiles < end ? span + kSpanTiles : end;
    const uint32_t count = ends[last - 1] - outlier;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(tiles) + (span - first) * kTileElements * sizeof(uint16_t);
    place_outliers<HvxHalves>(strip + at.places() + 2 * outlier, strip + at.values() + outlier, scales, count, begin);
    outlier += count;
    tile = last;
  }
}

}  // namespace vitro::hexagon
