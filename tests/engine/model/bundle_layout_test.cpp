#include "engine/model/bundle_layout.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(BundleLayout, fp16_bundles_at_width_4096_are_one_read_of_24_kib) {  // PowerInfer-2, section 4.4
  const BundleLayout layout = bundle_layout(Format::f16, 14336, 4096, BundleForm::one_read);
  EXPECT_EQ(layout.block, 24 * KiB);
  EXPECT_EQ(layout.per_block, 1u);
  EXPECT_EQ(layout.first_part, 0u);
  EXPECT_EQ(layout.up, 8 * KiB);
  EXPECT_EQ(layout.down, 16 * KiB);
  EXPECT_EQ(layout.bytes(), 14336 * 24 * KiB);
}

TEST(BundleLayout, four_bit_bundles_at_width_4096_are_8_kib_in_one_read_and_4_and_8_in_two) {
  const BundleLayout one = bundle_layout(Format::q4_0, 100, 4096, BundleForm::one_read);
  EXPECT_EQ(one.up, 2304u);
  EXPECT_EQ(one.block, 8 * KiB);
  const BundleLayout two = bundle_layout(Format::q4_0, 100, 4096, BundleForm::two_phases);
  EXPECT_EQ(two.first_part, 4 * KiB);
  EXPECT_EQ(two.up, two.first_part);
  EXPECT_EQ(two.block, 12 * KiB);
}

// PowerInfer-2, sections 4.4 and 7.2.3: 4 + 4 KiB, either way.
TEST(BundleLayout, the_forms_for_4_bits_load_4_and_4_kib_at_width_4096) {
  const BundleLayout resident = bundle_layout(Format::q4_0, 100, 4096, BundleForm::scales_resident);
  EXPECT_EQ(resident.format, Format::q4_nibbles);
  EXPECT_EQ(resident.first_part, 4 * KiB);  // 2 KiB of them nibbles
  EXPECT_EQ(resident.up, 4 * KiB);
  EXPECT_EQ(resident.down, 6 * KiB);
  EXPECT_EQ(resident.block, 8 * KiB);
  const BundleLayout inside = bundle_layout(Format::q4_0, 100, 4096, BundleForm::scales_inline);
  EXPECT_EQ(inside.format, Format::q4_0);
  EXPECT_EQ(inside.first_part, 4 * KiB);
  EXPECT_EQ(inside.up, 2304u);  // begins in the first page
  EXPECT_EQ(inside.block, 8 * KiB);
}

TEST(BundleLayout, other_widths_are_read_in_whole_pages) {
  const BundleLayout wide = bundle_layout(Format::q4_0, 100, 5120, BundleForm::scales_resident);  // rows of 2560 bytes
  EXPECT_EQ(wide.first_part, 4 * KiB);
  EXPECT_EQ(wide.block, 12 * KiB);
  const BundleLayout narrow = bundle_layout(Format::q4_0, 100, 2048, BundleForm::scales_resident);  // bundles of 3 KiB
  EXPECT_EQ(narrow.block, 4 * KiB);
  EXPECT_EQ(narrow.first_part, 0u);
}

TEST(BundleLayout, dram_keeps_the_rows_and_no_padding) {
  const auto kept = [](Format format, std::uint32_t width, BundleForm form) {
    return bundle_layout(format, 100, width, form).kept_block();
  };
  EXPECT_EQ(kept(Format::q4_0, 4096, BundleForm::scales_resident), 6 * KiB);    // of 8: Gate has 2 KiB of a page
  EXPECT_EQ(kept(Format::q4_0, 5120, BundleForm::scales_resident), 3 * 2560u);  // of 12 KiB
  EXPECT_EQ(kept(Format::q4_0, 4096, BundleForm::one_read), 3 * 2304u);
  EXPECT_EQ(kept(Format::q4_0, 4096, BundleForm::scales_inline), 3 * 2304u);
  EXPECT_EQ(kept(Format::q4_0, 4096, BundleForm::two_phases), 3 * 2304u);  // of 12 KiB
  EXPECT_EQ(kept(Format::q4_0, 4096, BundleForm::apart), 3 * 2304u);
  EXPECT_EQ(kept(Format::f16, 288, BundleForm::one_read), 2 * 3 * 576u);  // two bundles of a page
  EXPECT_EQ(kept(Format::f16, 4096, BundleForm::one_read), 24 * KiB);
  const BundleLayout layout = bundle_layout(Format::q4_0, 100, 4096, BundleForm::scales_resident);
  EXPECT_TRUE(layout.padded());
  EXPECT_EQ(layout.kept_before(layout.up), 2 * KiB);
  EXPECT_EQ(layout.kept_before(layout.down), 4 * KiB);
  EXPECT_EQ(layout.kept_before(KiB), KiB);
  EXPECT_EQ(layout.kept_before(3 * KiB), 2 * KiB) << "in the middle of the padding";
  EXPECT_FALSE(bundle_layout(Format::f16, 100, 4096, BundleForm::one_read).padded());
}

TEST(BundleLayout, automatic_keeps_the_scales_of_4_bits_in_dram_and_reads_others_at_once) {
  EXPECT_EQ(resolved_form(BundleForm::automatic, Format::q4_0), BundleForm::scales_resident);
  EXPECT_EQ(resolved_form(BundleForm::automatic, Format::f16), BundleForm::one_read);
  EXPECT_NE(message_of([] { resolved_form(BundleForm::scales_inline, Format::f16); }).find("layout scales_inline: is for 4-bit weights"),
            std::string::npos);
}

TEST(BundleLayout, matrices_apart_take_whole_pages_each) {
  const BundleLayout wide = bundle_layout(Format::f16, 100, 4096, BundleForm::apart);
  EXPECT_EQ(wide.stripes, 3u);
  EXPECT_EQ(wide.piece(), 8 * KiB);
  EXPECT_EQ(wide.bytes(), 100 * 24 * KiB);
  const BundleLayout four_bit = bundle_layout(Format::q4_0, 100, 4096, BundleForm::apart_two_phases);
  EXPECT_EQ(four_bit.piece(), 4 * KiB);
  EXPECT_EQ(four_bit.first_part, four_bit.piece()) << "Gate alone";
  const BundleLayout narrow = bundle_layout(Format::f16, 100, 288, BundleForm::apart);
  EXPECT_EQ(narrow.per_block, 7u) << "rows of 576 bytes share a page";
  EXPECT_EQ(narrow.block, 12 * KiB);
  EXPECT_EQ(narrow.within_block(8), 576u);
  for (const BundleLayout& layout : {wide, four_bit, narrow}) EXPECT_EQ(layout.gate + layout.up + layout.down, 0u);
}

TEST(BundleLayout, bundles_under_a_page_share_a_block_and_are_read_in_one) {
  const BundleLayout layout = bundle_layout(Format::f16, 7, 288, BundleForm::two_phases);  // rows of 576 bytes, bundles of 1728
  EXPECT_EQ(layout.per_block, 2u);
  EXPECT_EQ(layout.block, 4 * KiB);
  EXPECT_EQ(layout.first_part, 0u);
  EXPECT_EQ(layout.blocks(), 4u);  // the last one holds one bundle
  EXPECT_EQ(layout.block_of(5), 2u);
  EXPECT_EQ(layout.within_block(5), 1728u);
}

TEST(BundleLayout, rows_start_in_place_units_and_do_not_overlap) {
  for (const Format format : {Format::f32, Format::f16, Format::q8_0, Format::q4_0}) {
    for (const std::uint32_t width : {32u, 96u, 288u, 2048u, 3584u, 4096u, 5120u}) {
      for (const BundleForm form : kBundleForms) {
        if (lies_apart(form)) continue;  // one row in a bundle
        if (format != Format::q4_0 && (form == BundleForm::scales_inline || form == BundleForm::scales_resident)) continue;
        const BundleLayout layout = bundle_layout(format, 10, width, form);
        const Bytes row = row_bytes(layout.format, width);
        EXPECT_GE(layout.up, layout.gate + row);
        EXPECT_GE(layout.down, layout.up + row);
        EXPECT_GE(layout.bundle, layout.down + row);
        EXPECT_GE(layout.block, layout.per_block * layout.bundle);
        EXPECT_EQ(layout.block % kPageSize, 0u);
        for (const Bytes at : {layout.gate, layout.up, layout.down, layout.bundle}) EXPECT_EQ(at % kRowOffsetUnit, 0u);
        if (layout.first_part > 0) {
          EXPECT_EQ(layout.first_part % kPageSize, 0u);
          EXPECT_GE(layout.first_part, row);
          EXPECT_LT(layout.first_part, layout.block);
        }
      }
    }
  }
}

TEST(BundleLayout, a_width_of_no_whole_blocks_is_refused) {
  const std::string message = message_of([] { bundle_layout(Format::q4_0, 10, 100, BundleForm::one_read); });
  EXPECT_NE(message.find("rows of 100 elements are not whole q4_0 blocks of 32"), std::string::npos);
}

}  // namespace
}  // namespace vitro
