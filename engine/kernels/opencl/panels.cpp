#include "engine/kernels/opencl/panels.hpp"

#include <cstring>

#include "engine/quant/group_formats.hpp"

namespace vitro::opencl {
namespace {

constexpr std::uint32_t kWords = kTexelBytes / 4;

std::uint16_t scale_bits(const std::byte* block) {
  std::uint16_t bits;
  std::memcpy(&bits, block, sizeof bits);
  return bits;
}

// The codes of a row as they are laid out, in bytes.
void read_codes(Format format, const std::byte* row, std::vector<std::uint8_t>& codes) {
  if (format == Format::q8_0) {
    for (std::size_t k = 0; k < codes.size(); k += kBlock) std::memcpy(&codes[k], row + k / kBlock * block_bytes(format) + 2, kBlock);
    return;
  }
  unpack_codes(format, row, codes.size(), codes.data());
  const int step = block_scale(format, row).step;
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(code * step);
}

}  // namespace

std::optional<PanelForm> panel_form(const View& weights) {
  const Format format = weights.format;
  if (weights.layout != Layout::rows) return std::nullopt;
  if (format == Format::q8_0) return PanelForm{8, kBlock, false, 0};
  if (format != Format::q4_0 && !has_look_ups(format)) return std::nullopt;
  const bool one_bit = format.bits == 1;  // d (2 q - 1)
  return PanelForm{4, format.block, format.zero_point, format.zero_point ? 0 : one_bit ? 1 : 1 << (format.bits - 1)};
}

Panels pack_panels(const View& weights, Range rows) {
  const Format format = weights.format;
  Panels panels{*panel_form(weights), rows.count, columns(weights), {}, {}, {}};
  const PanelForm& form = panels.form;
  const Bytes stride = row_bytes(format, panels.columns), block = block_bytes(format);
  const std::uint32_t groups = panels.columns / form.group, texel_columns = kTexelBytes * 8 / form.bits;
  panels.codes.resize(std::size_t{panels.lines()} * rows.count * kWords);
  panels.scales.resize(std::size_t{groups} * rows.count);
  if (form.zero_points) panels.zeros.resize(panels.scales.size());
  std::vector<std::uint8_t> codes(panels.columns);
  for (std::uint32_t r = 0; r < rows.count; ++r) {
    const std::byte* row = weights.data() + (rows.first + r) * stride;
    read_codes(format, row, codes);
    for (std::uint32_t k = 0; k < panels.columns; ++k) {
      const std::uint32_t in_texel = k % texel_columns, word = in_texel % kWords, field = in_texel / kWords;
      const std::size_t texel = std::size_t{k / texel_columns} * rows.count + r;
      panels.codes[texel * kWords + word] |= std::uint32_t{codes[k]} << (field * form.bits);
    }
    for (std::uint32_t g = 0; g < groups; ++g) {
      panels.scales[std::size_t{g} * rows.count + r] = scale_bits(row + g * block);
      if (form.zero_points) {
        panels.zeros[std::size_t{g} * rows.count + r] = static_cast<std::uint8_t>(block_scale(format, row + g * block).zero);
      }
    }
  }
  return panels;
}

}  // namespace vitro::opencl
