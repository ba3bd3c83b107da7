#include "engine/tensor/format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace vitro {
namespace {

using Family = Format::Family;

constexpr std::uint32_t kNoType = 0;

struct Expected {
  std::string_view name;
  Family family;
  unsigned bits, block, bytes;  // of an element; elements and bytes of a block
  char kind;                    // z: a zero point, r: one scale per row
  std::uint32_t gguf_type;
};

// Files hold the places of this list (cache keys) and the types (GGUF): what stands here stays, new formats come last.
// clang-format off
const std::vector<Expected> kExpected{
    {"f32", Family::plain, 32, 1, 4, '-', 0},
    {"f16", Family::plain, 16, 1, 2, '-', 1},
    {"bf16", Family::plain, 16, 1, 2, '-', 30},
    {"q4_0", Family::block, 4, 32, 18, '-', 2},
    {"q8_0", Family::block, 8, 32, 34, '-', 8},
    {"q4_k", Family::k_quant, 4, 256, 144, '-', 12},
    {"q5_k", Family::k_quant, 5, 256, 176, '-', 13},
    {"q6_k", Family::k_quant, 6, 256, 210, '-', 14},
    {"q4_nibbles", Family::nibbles, 4, 32, 16, '-', kNoType},
    {"w1g32", Family::group, 1, 32, 6, '-', 0x56541020},
    {"w1g64", Family::group, 1, 64, 10, '-', 0x56541040},
    {"w1g128", Family::group, 1, 128, 18, '-', 0x56541080},
    {"w2g32", Family::group, 2, 32, 10, '-', 0x56542020},
    {"w2g64", Family::group, 2, 64, 18, '-', 0x56542040},
    {"w2g128", Family::group, 2, 128, 34, '-', 0x56542080},
    {"w3g32", Family::group, 3, 32, 14, '-', 0x56543020},
    {"w3g64", Family::group, 3, 64, 26, '-', 0x56543040},
    {"w3g128", Family::group, 3, 128, 50, '-', 0x56543080},
    {"w4g32", Family::group, 4, 32, 18, '-', 0x56544020},
    {"w4g64", Family::group, 4, 64, 34, '-', 0x56544040},
    {"w4g128", Family::group, 4, 128, 66, '-', 0x56544080},
    {"w1g32z", Family::group, 1, 32, 7, 'z', 0x56541820},
    {"w1g64z", Family::group, 1, 64, 11, 'z', 0x56541840},
    {"w1g128z", Family::group, 1, 128, 19, 'z', 0x56541880},
    {"w2g32z", Family::group, 2, 32, 11, 'z', 0x56542820},
    {"w2g64z", Family::group, 2, 64, 19, 'z', 0x56542840},
    {"w2g128z", Family::group, 2, 128, 35, 'z', 0x56542880},
    {"w3g32z", Family::group, 3, 32, 15, 'z', 0x56543820},
    {"w3g64z", Family::group, 3, 64, 27, 'z', 0x56543840},
    {"w3g128z", Family::group, 3, 128, 51, 'z', 0x56543880},
    {"w4g32z", Family::group, 4, 32, 19, 'z', 0x56544820},
    {"w4g64z", Family::group, 4, 64, 35, 'z', 0x56544840},
    {"w4g128z", Family::group, 4, 128, 67, 'z', 0x56544880},
    {"iq4_nl", Family::table, 4, 32, 18, '-', 20},
    {"fp4", Family::table, 4, 32, 18, '-', 0x56540001},
    {"nf4", Family::table, 4, 32, 18, '-', 0x56540002},
    {"w1g32r", Family::group, 1, 32, 6, 'r', 0x56541420},
    {"w1g64r", Family::group, 1, 64, 10, 'r', 0x56541440},
    {"w1g128r", Family::group, 1, 128, 18, 'r', 0x56541480},
    {"w2g32r", Family::group, 2, 32, 10, 'r', 0x56542420},
    {"w2g64r", Family::group, 2, 64, 18, 'r', 0x56542440},
    {"w2g128r", Family::group, 2, 128, 34, 'r', 0x56542480},
    {"w3g32r", Family::group, 3, 32, 14, 'r', 0x56543420},
    {"w3g64r", Family::group, 3, 64, 26, 'r', 0x56543440},
    {"w3g128r", Family::group, 3, 128, 50, 'r', 0x56543480},
    {"w4g32r", Family::group, 4, 32, 18, 'r', 0x56544420},
    {"w4g64r", Family::group, 4, 64, 34, 'r', 0x56544440},
    {"w4g128r", Family::group, 4, 128, 66, 'r', 0x56544480},
    {"int8_fp8", Family::kv, 8, 1, 1, '-', kNoType},
    {"index32", Family::index, 32, 1, 4, '-', 26},
    {"int4_fp8", Family::kv, 4, 1, 1, '-', kNoType},
    {"int8_e5m2", Family::kv, 8, 1, 1, '-', kNoType},
    {"int4_e5m2", Family::kv, 4, 1, 1, '-', kNoType},
    {"w8g32z", Family::group, 8, 32, 35, 'z', 0x56548820},
    {"w8g64z", Family::group, 8, 64, 67, 'z', 0x56548840},
    {"w8g128z", Family::group, 8, 128, 131, 'z', 0x56548880},
    {"w8g32zr", Family::group, 8, 32, 35, 'b', 0x56548c20},
    {"w8g64zr", Family::group, 8, 64, 67, 'b', 0x56548c40},
    {"w8g128zr", Family::group, 8, 128, 131, 'b', 0x56548c80},
    {"w4g32zr", Family::group, 4, 32, 19, 'b', 0x56544c20},
    {"w4g64zr", Family::group, 4, 64, 35, 'b', 0x56544c40},
    {"w4g128zr", Family::group, 4, 128, 67, 'b', 0x56544c80},
    {"q4_0_tile", Family::tile, 4, 2, 3, '-', 0x56540003},
    {"w4_outliers", Family::mixed, 4, 32, 16, 'r', 0x56540004},
    {"iq4_xs", Family::k_quant, 4, 256, 136, '-', 23},
    {"iq2_xxs", Family::codebook, 2, 256, 66, '-', 16},
    {"iq2_xs", Family::codebook, 2, 256, 74, '-', 17},
    {"iq3_xxs", Family::codebook, 3, 256, 98, '-', 18},
    {"iq1_s", Family::codebook, 1, 256, 50, '-', 19},
    {"iq3_s", Family::codebook, 3, 256, 110, '-', 21},
    {"iq2_s", Family::codebook, 2, 256, 82, '-', 22},
    {"iq1_m", Family::codebook, 1, 256, 56, '-', 29},
};
// clang-format on

TEST(Format, is_what_the_table_says) {
  ASSERT_EQ(all_formats().size(), kExpected.size());
  for (std::uint32_t id = 0; id < kExpected.size(); ++id) {
    const Expected& expected = kExpected[id];
    SCOPED_TRACE(expected.name);
    const Format format = all_formats()[id];
    EXPECT_EQ(to_string(format), expected.name);
    EXPECT_EQ(format_by_name(expected.name), format);
    EXPECT_EQ(format_id(format), id);
    EXPECT_EQ(format_by_id(id), format);
    EXPECT_EQ(format.family, expected.family);
    EXPECT_EQ(format.bits, expected.bits);
    EXPECT_EQ(format.block, expected.block);
    EXPECT_EQ(format.block_bytes(), expected.bytes);
    EXPECT_EQ(format.zero_point, expected.kind == 'z' || expected.kind == 'b');
    EXPECT_EQ(format.row_scale, expected.kind == 'r' || expected.kind == 'b');
    EXPECT_EQ(format.is_group(), expected.family == Family::group);
    EXPECT_EQ(format.is_codebook(), expected.family == Family::codebook);
    EXPECT_EQ(format.has_outliers(), expected.family == Family::mixed);
    EXPECT_EQ(format.has_codes(), format.is_group() || expected.family == Family::table || expected.name == "q4_0");
    EXPECT_EQ(code_table(format) != nullptr, expected.family == Family::table);
    const bool weights = expected.name != "q4_nibbles" && expected.family != Family::kv && expected.name != "index32";
    EXPECT_EQ(format.is_for_kv(), expected.family == Family::kv);
    EXPECT_EQ(format.is_for_weights(), weights);
    if (expected.gguf_type == kNoType && expected.name != "f32") continue;
    EXPECT_EQ(gguf_type_id(format), expected.gguf_type);
    EXPECT_EQ(format_of_gguf_type(expected.gguf_type), format);
  }
}

TEST(Format, constants_have_their_names) {
  const std::vector<std::pair<Format, std::string_view>> constants{{Format::f32, "f32"},
                                                                   {Format::f16, "f16"},
                                                                   {Format::bf16, "bf16"},
                                                                   {Format::q4_0, "q4_0"},
                                                                   {Format::q8_0, "q8_0"},
                                                                   {Format::q4_k, "q4_k"},
                                                                   {Format::q5_k, "q5_k"},
                                                                   {Format::q6_k, "q6_k"},
                                                                   {Format::iq4_nl, "iq4_nl"},
                                                                   {Format::fp4, "fp4"},
                                                                   {Format::nf4, "nf4"},
                                                                   {Format::q4_0_tile, "q4_0_tile"},
                                                                   {Format::w4_outliers, "w4_outliers"},
                                                                   {Format::w(2, 64, 'z'), "w2g64z"},
                                                                   {Format::q4_nibbles, "q4_nibbles"},
                                                                   {Format::w(1, 128, 'r'), "w1g128r"},
                                                                   {Format::w(3, 32), "w3g32"},
                                                                   {Format::int8_fp8, "int8_fp8"},
                                                                   {Format::int4_fp8, "int4_fp8"},
                                                                   {Format::int8_e5m2, "int8_e5m2"},
                                                                   {Format::int4_e5m2, "int4_e5m2"},
                                                                   {Format::index32, "index32"}};
  for (const auto& [format, name] : constants) EXPECT_EQ(to_string(format), name);
  EXPECT_EQ(Format{}, Format::f32);
}

TEST(Format, what_does_not_exist_has_no_name) {
  for (const std::string_view name : {"w5g32", "w0g32", "w2g16", "w2g256", "w2g48", "w2g64x", "w2g64zr", "w2g64zz", "w02g64", "w2g064",
                                      "w2g", "wg64", "w2g64 ", "W2G64", "q4_1", "q3_k", "f64", "", "?"}) {
    EXPECT_EQ(format_by_name(name), std::nullopt) << name;
  }
  for (const Format format : {Format::w(5, 32), Format::w(2, 16), Format::w(2, 256, 'z'), Format::w(4, 96, 'r')}) {
    EXPECT_FALSE(exists(format));
    EXPECT_EQ(to_string(format), "?");
  }
  EXPECT_EQ(format_by_id(static_cast<std::uint32_t>(kExpected.size())), std::nullopt);
  for (const std::uint32_t type : {3u, 0x56540000u, 0x56540005u, 0x56542010u, 0x56545020u, 0x56542c40u, 0xffffffffu}) {
    EXPECT_EQ(format_of_gguf_type(type), std::nullopt) << type;
  }
}

TEST(Format, messages_name_the_formats_of_weights) {
  const std::string names = weight_format_names();
  EXPECT_TRUE(names.starts_with("f32, f16, bf16, q4_0, ")) << names;
  for (const Expected& expected : kExpected) {
    const bool listed = (", " + names + ", ").find(", " + std::string(expected.name) + ", ") != std::string::npos;
    EXPECT_EQ(listed, format_by_name(expected.name)->is_for_weights()) << expected.name;
  }
}

TEST(Format, values_are_equal_only_to_themselves_and_ordered_by_id) {
  const auto formats = all_formats();
  for (std::size_t a = 0; a < formats.size(); ++a) {
    for (std::size_t b = 0; b < formats.size(); ++b) {
      EXPECT_EQ(formats[a] == formats[b], a == b);
      EXPECT_EQ(formats[a] < formats[b], a < b);
    }
  }
  const std::set<Format> sorted(formats.rbegin(), formats.rend());
  EXPECT_TRUE(std::ranges::equal(sorted, formats));
}

}  // namespace
}  // namespace vitro
