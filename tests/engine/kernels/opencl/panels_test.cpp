// Weights in [l / 32, h, 32]: where each code, scale and zero point lies, read back by the header's own words.
#include "engine/kernels/opencl/panels.hpp"

#include <gtest/gtest.h>

#include "engine/quant/tiles.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro::test {
namespace {

using opencl::panel_form;
using opencl::PanelForm;
using opencl::Panels;

// The weight of a row and column, as a kernel finds it.
float weight_at(const Panels& panels, std::uint32_t row, std::uint32_t column) {
  const PanelForm& form = panels.form;
  const std::uint32_t line = form.bits == 4 ? column / 32 : column / 16, within = column % (128 / form.bits);
  const std::uint32_t word = panels.codes[(std::size_t{line} * panels.rows + row) * 4 + within % 4];
  const std::uint32_t field = word >> (within / 4 * form.bits);
  const std::int32_t code = form.bits == 4 ? static_cast<std::int32_t>(field & 15) : static_cast<std::int8_t>(field & 255);
  const std::size_t at = std::size_t{column / form.group} * panels.rows + row;
  const std::int32_t zero = form.zero_points ? panels.zeros[at] : form.zero;
  return half_to_float(panels.scales[at]) * static_cast<float>(code - zero);
}

TEST(Panels, hold_every_weight_of_every_form_exactly) {
  Rng rng(1);
  std::size_t forms = 0;
  for (const Format format : all_formats()) {
    if (!format.is_for_weights()) continue;
    const View w = weights(rng, 11, 256, format, Layout::rows);
    if (!panel_form(w)) continue;
    ++forms;
    const Panels panels = opencl::pack_panels(w, {3, 7});
    ASSERT_EQ(panels.codes.size(), std::size_t{panels.lines()} * 7 * 4);
    std::vector<float> row(256);
    for (std::uint32_t r = 0; r < 7; ++r) {
      dequantise_row(format, w.data() + (3 + r) * row_bytes(format, 256), row.data(), 256);
      for (std::uint32_t k = 0; k < 256; ++k) ASSERT_EQ(weight_at(panels, r, k), row[k]) << to_string(format) << " " << r << " " << k;
    }
  }
  EXPECT_EQ(forms, 2u + 3 * 12);  // q8_0, q4_0, and group formats of one to four bits: plain, with zero points, with one scale per row
}

TEST(Panels, of_four_bits_take_one_load_of_128_bits_per_32_columns_and_of_eight_two) {
  Rng rng(2);
  EXPECT_EQ(panel_form(weights(rng, 1, 64, Format::q4_0, Layout::rows))->lines(64), 2u);
  EXPECT_EQ(panel_form(weights(rng, 1, 64, Format::w(2, 64, 'z'), Layout::rows))->lines(64), 2u);
  EXPECT_EQ(panel_form(weights(rng, 1, 64, Format::q8_0, Layout::rows))->lines(64), 4u);
}

TEST(Panels, tell_symmetric_from_asymmetric_weights) {
  Rng rng(3);
  const auto form = [&](Format format) { return *panel_form(weights(rng, 1, 128, format, Layout::rows)); };
  EXPECT_EQ(form(Format::q4_0), (PanelForm{4, 32, false, 8}));
  EXPECT_EQ(form(Format::w(4, 64, 'z')), (PanelForm{4, 64, true, 0}));
  EXPECT_EQ(form(Format::w(1, 32)), (PanelForm{4, 32, false, 1}));
  EXPECT_EQ(form(Format::q8_0), (PanelForm{8, 32, false, 0}));
}

TEST(Panels, have_no_form_of_floats_k_quants_tables_and_tiles) {
  Rng rng(4);
  for (const Format format : {Format::f32, Format::f16, Format::q4_k, Format::q6_k, Format::iq4_nl, Format::nf4}) {
    EXPECT_FALSE(panel_form(weights(rng, 16, 256, format, Layout::rows))) << to_string(format);
  }
  EXPECT_FALSE(panel_form(weights(rng, 16, 256, Format::q4_0, Layout::tiled)));
}

}  // namespace
}  // namespace vitro::test
