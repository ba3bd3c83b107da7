#include "engine/model/bundle_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {

BundleLayout bundle_layout(Format format, std::uint32_t neurons, std::uint32_t width, BundleOptions options) {
  if (width == 0 || width % block_elements(format) != 0) {
    throw ConfigError(fmt::format("neuron bundles: rows of {} elements are not whole {} blocks of {} (choose another format or width)",
                                  width, to_string(format), block_elements(format)));
  }
  const Bytes row = round_up(row_bytes(format, width), kPlaceUnit);
  BundleLayout layout{.format = format, .neurons = neurons, .width = width, .up = row, .down = 2 * row, .bundle = 3 * row};
  if (options.apart) {
    layout.stripes = 3;
    layout.up = layout.down = 0;
    layout.per_block = static_cast<std::uint32_t>(std::max<Bytes>(kPageSize / row, 1));
    layout.bundle = row;
    const Bytes piece = round_up(layout.per_block * row, kPageSize);
    layout.block = layout.stripes * piece;
    if (options.two_phases) layout.first_part = piece;
  } else if (layout.bundle <= kPageSize) {
    layout.per_block = static_cast<std::uint32_t>(kPageSize / layout.bundle);
    layout.block = kPageSize;
  } else if (options.two_phases) {
    layout.first_part = round_up(row, kPageSize);
    layout.up = layout.first_part;
    layout.down = layout.up + row;
    layout.bundle = layout.block = layout.first_part + round_up(2 * row, kPageSize);
  } else {
    layout.block = round_up(layout.bundle, kPageSize);
  }
  return layout;
}

}  // namespace vitro
