#include "engine/model/bundle_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {

std::string_view to_string(BundleForm form) {
  switch (form) {
    case BundleForm::automatic:
      return "auto";
    case BundleForm::one_read:
      return "bundles";
    case BundleForm::two_phases:
      return "bundles_two_phase";
    case BundleForm::apart:
      return "apart";
    case BundleForm::apart_two_phases:
      return "apart_two_phase";
    case BundleForm::scales_inline:
      return "scales_inline";
    case BundleForm::scales_resident:
      return "scales_resident";
  }
  return "?";
}

std::optional<BundleForm> form_by_name(std::string_view name) {
  for (const BundleForm form : kBundleForms) {
    if (to_string(form) == name) return form;
  }
  return std::nullopt;
}

BundleForm resolved_form(BundleForm form, Format format) {
  if (form == BundleForm::automatic) return format == Format::q4_0 ? BundleForm::scales_resident : BundleForm::one_read;
  if ((form == BundleForm::scales_inline || form == BundleForm::scales_resident) && format != Format::q4_0) {
    throw ConfigError(
        fmt::format("layout {}: is for 4-bit weights, but the FFN's are {} (expected q4_0, as vitro quantize --scheme q4_0 "
                    "makes it, or layout bundles)",
                    to_string(form), to_string(format)));
  }
  return form;
}

BundleLayout bundle_layout(Format format, std::uint32_t neurons, std::uint32_t width, BundleForm form) {
  if (width == 0 || width % block_elements(format) != 0) {
    throw ConfigError(fmt::format("neuron bundles: rows of {} elements are not whole {} blocks of {} (choose another format or width)",
                                  width, to_string(format), block_elements(format)));
  }
  form = resolved_form(form, format);
  const Format stored = form == BundleForm::scales_resident ? Format::q4_nibbles : format;
  const Bytes row = round_up(row_bytes(stored, width), kRowOffsetUnit);
  BundleLayout layout{.format = stored, .neurons = neurons, .width = width, .up = row, .down = 2 * row, .bundle = 3 * row};
  if (lies_apart(form)) {
    layout.stripes = 3;
    layout.up = layout.down = 0;
    layout.per_block = static_cast<std::uint32_t>(std::max<Bytes>(kPageSize / row, 1));
    layout.bundle = row;
    const Bytes piece = round_up(layout.per_block * row, kPageSize);
    layout.block = layout.stripes * piece;
    if (form == BundleForm::apart_two_phases) layout.first_part = piece;
  } else if (layout.bundle <= kPageSize) {
    layout.per_block = static_cast<std::uint32_t>(kPageSize / layout.bundle);
    layout.block = kPageSize;
  } else if (form == BundleForm::one_read || form == BundleForm::scales_inline) {
    layout.block = round_up(layout.bundle, kPageSize);
    if (form == BundleForm::scales_inline) layout.first_part = round_up(row, kPageSize);
  } else {
    layout.first_part = round_up(row, kPageSize);
    layout.up = layout.first_part;
    layout.down = layout.up + row;
    layout.bundle = layout.block = layout.first_part + round_up(2 * row, kPageSize);
    layout.gap_begin = row;
    layout.gap_end = layout.first_part;
    layout.end = layout.down + row;
    return layout;
  }
  layout.end = layout.per_block * layout.bundle;
  return layout;
}

}  // namespace vitro
