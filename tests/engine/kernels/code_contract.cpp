#include "tests/engine/kernels/code_contract.hpp"

#include <algorithm>
#include <cmath>

#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/ops/code_form.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro::test {

Quantised quantise(const float* x, std::size_t columns, std::size_t block) {
  Quantised out{std::vector<std::int8_t>(columns), std::vector<float>(columns / block)};
  for (std::size_t b = 0; b < columns / block; ++b) {
    float amax = 0;
    for (std::size_t i = 0; i < block; ++i) amax = std::max(amax, std::abs(x[b * block + i]));
    if (amax < 0x1p-100f) amax = 0;
    out.scales[b] = amax / 127.0f;
    const float inverse = amax > 0 ? 127.0f / amax : 0.0f;
    for (std::size_t i = 0; i < block; ++i) {
      out.quants[b * block + i] = static_cast<std::int8_t>(std::nearbyint(x[b * block + i] * inverse));
    }
  }
  return out;
}

float product(Format format, const std::byte* row, const Quantised& x, std::size_t columns) {
  const std::size_t block = block_elements(format);
  std::vector<std::uint8_t> codes(columns);
  unpack_codes(format, row, columns, codes.data());
  std::vector<std::int32_t> sums(columns / block), dots(columns / block);
  for (std::size_t i = 0; i < columns; ++i) sums[i / block] += x.quants[i];
  if (format.bits == 8) {
    for (std::size_t i = 0; i < columns; ++i) dots[i / block] += codes[i] * x.quants[i];
  } else {
    const std::vector<std::int16_t> tables = lut::precompute(x.quants.data(), columns);
    dots = lut::linear(tables.data(), sums.data(), codes.data(), 1, columns, format.bits, 0, block);
  }
  float acc = 0;
  for (std::size_t b = 0; b < dots.size(); ++b) {
    const BlockScale scale = block_scale(format, row + b * block_bytes(format));
    acc = std::fma(static_cast<float>(scale.step * dots[b] - scale.zero * sums[b]), scale.scale * x.scales[b], acc);
  }
  return acc;
}

Rounded rounded_product(Format format, const std::byte* row, const Quantised& x, std::size_t columns) {
  const std::size_t block = block_elements(format), blocks = columns / block;
  std::vector<std::uint8_t> codes(columns);
  unpack_codes(format, row, columns, codes.data());
  const unsigned bits = format.bits;
  const int top = (1 << bits) - 1;
  const lut::RoundedTables tables = lut::precompute_rounded(x.quants.data(), columns, block);
  const std::vector<std::int32_t> found = lut::linear_rounded(tables, codes.data(), 1, columns, bits, block);
  Rounded out;
  double magnitude = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    std::int32_t sum = 0;
    for (std::size_t i = b * block; i < (b + 1) * block; ++i) sum += x.quants[i];
    const BlockScale scale = block_scale(format, row + b * block_bytes(format));
    const float unit = static_cast<float>(tables.most[b]) / 127.0f * (static_cast<float>(scale.step) * 0.5f);
    const auto rest = static_cast<float>(scale.step * top * sum - 2 * scale.zero * sum) * 0.5f;
    const float dot = std::fma(static_cast<float>(found[b]), unit, rest), weight = scale.scale * x.scales[b];
    out.value = std::fma(dot, weight, out.value);
    const double size = std::abs(static_cast<double>(found[b]) * unit) + std::abs(rest);
    out.bound += std::abs(weight) * (unit * top * static_cast<double>(block / 4) * (0.5 + 508.0 / 32768) + 3 * size * 0x1p-24);
    magnitude += std::abs(weight) * size;
  }
  out.bound += 1.01 * static_cast<double>(2 * blocks + 5) * magnitude * 0x1p-24;
  return out;
}

}  // namespace vitro::test
