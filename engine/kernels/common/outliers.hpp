// The outliers of w4_outliers (engine/quant/outlier_rows.hpp), of 16 rows at once: a lane has its row's value and the activation that the
// position names. A target whose instructions find 16 activations offers V::gather(const float*, const std::byte* positions of 16 bits).
#pragma once
#include "engine/kernels/common/lanes.hpp"
#include "engine/quant/outlier_rows.hpp"

namespace vitro::outliers {

template <class V>
[[gnu::always_inline]] inline V gather(const float* x, const std::byte* positions) {
  if constexpr (requires { V::gather(x, positions); }) {
    return V::gather(x, positions);
  } else {
    std::uint16_t at[kTileRows];
    float found[kTileRows];
    __builtin_memcpy(at, positions, sizeof at);
    for (std::size_t r = 0; r < kTileRows; ++r) found[r] = x[at[r]];
    return V::load(found);
  }
}

template <class V>
void add(const std::byte* tiles, std::size_t groups, Rows<float> x, float* y, std::size_t y_stride) {
  const OutlierRow row{x.columns};
  for (std::size_t g = 0; g < groups; ++g, tiles += kTileRows * row.bytes(), y += kTileRows) {
    const V scale = V::load(reinterpret_cast<const Half*>(tiles + kTileRows * row.outlier_scale()));
    for (std::size_t b = 0; b < x.count; ++b) {
      const std::byte *position = tiles + kTileRows * row.positions(), *value = tiles + kTileRows * row.values();
      V acc = V::load(y + b * y_stride);
      for (std::size_t j = 0; j < row.outliers(); ++j, position += 2 * kTileRows, value += kTileRows) {
        lanes::SignedBytes v;
        __builtin_memcpy(&v, value, sizeof v);
        acc = fma(scale * V::floats(v), gather<V>(x.data + b * x.stride, position), acc);
      }
      acc.store(y + b * y_stride);
    }
  }
}

}  // namespace vitro::outliers
