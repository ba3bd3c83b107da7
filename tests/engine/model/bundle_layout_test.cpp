#include "engine/model/bundle_layout.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(BundleLayout, fp16_bundles_at_width_4096_are_one_read_of_24_kib) {  // PowerInfer-2, section 4.4
  const BundleLayout layout = bundle_layout(Format::f16, 14336, 4096, {});
  EXPECT_EQ(layout.block, 24 * KiB);
  EXPECT_EQ(layout.per_block, 1u);
  EXPECT_EQ(layout.first_part, 0u);
  EXPECT_EQ(layout.up, 8 * KiB);
  EXPECT_EQ(layout.down, 16 * KiB);
  EXPECT_EQ(layout.bytes(), 14336 * 24 * KiB);
}

TEST(BundleLayout, four_bit_bundles_at_width_4096_are_8_kib_in_one_read_and_4_and_8_in_two) {
  const BundleLayout one = bundle_layout(Format::q4_0, 100, 4096, {});
  EXPECT_EQ(one.up, 2304u);
  EXPECT_EQ(one.block, 8 * KiB);
  const BundleLayout two = bundle_layout(Format::q4_0, 100, 4096, {.two_phases = true});
  EXPECT_EQ(two.first_part, 4 * KiB);
  EXPECT_EQ(two.up, two.first_part);
  EXPECT_EQ(two.block, 12 * KiB);
}

TEST(BundleLayout, matrices_apart_take_whole_pages_each) {
  const BundleLayout wide = bundle_layout(Format::f16, 100, 4096, {.apart = true});
  EXPECT_EQ(wide.stripes, 3u);
  EXPECT_EQ(wide.piece(), 8 * KiB);
  EXPECT_EQ(wide.bytes(), 100 * 24 * KiB);
  const BundleLayout four_bit = bundle_layout(Format::q4_0, 100, 4096, {.two_phases = true, .apart = true});
  EXPECT_EQ(four_bit.piece(), 4 * KiB);
  EXPECT_EQ(four_bit.first_part, four_bit.piece()) << "Gate alone";
  const BundleLayout narrow = bundle_layout(Format::f16, 100, 288, {.apart = true});
  EXPECT_EQ(narrow.per_block, 7u) << "rows of 576 bytes share a page";
  EXPECT_EQ(narrow.block, 12 * KiB);
  EXPECT_EQ(narrow.within_block(8), 576u);
  for (const BundleLayout& layout : {wide, four_bit, narrow}) EXPECT_EQ(layout.gate + layout.up + layout.down, 0u);
}

TEST(BundleLayout, bundles_under_a_page_share_a_block_and_are_read_in_one) {
  const BundleLayout layout = bundle_layout(Format::f16, 7, 288, {.two_phases = true});  // rows of 576 bytes, bundles of 1728
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
      for (const bool two_phases : {false, true}) {
        const BundleLayout layout = bundle_layout(format, 10, width, {.two_phases = two_phases});
        const Bytes row = row_bytes(format, width);
        EXPECT_GE(layout.up, layout.gate + row);
        EXPECT_GE(layout.down, layout.up + row);
        EXPECT_GE(layout.bundle, layout.down + row);
        EXPECT_GE(layout.block, layout.per_block * layout.bundle);
        EXPECT_EQ(layout.block % kPageSize, 0u);
        for (const Bytes at : {layout.gate, layout.up, layout.down, layout.bundle}) EXPECT_EQ(at % kPlaceUnit, 0u);
        if (layout.first_part > 0) {
          EXPECT_EQ(layout.first_part % kPageSize, 0u);
          EXPECT_EQ(layout.up, layout.first_part);
        }
      }
    }
  }
}

TEST(BundleLayout, a_width_of_no_whole_blocks_is_refused) {
  EXPECT_NE(message_of([] { bundle_layout(Format::q4_0, 10, 100, {}); }).find("rows of 100 elements are not whole q4_0 blocks of 32"),
            std::string::npos);
}

}  // namespace
}  // namespace vitro
