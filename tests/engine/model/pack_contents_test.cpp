// Packed files of a stranger who makes all checksums right: what they say is held against their formats and their model.
#include "engine/model/pack_contents.hpp"

#include <gmock/gmock.h>

#include "engine/model/pack_checksums.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/outlier_rows.hpp"
#include "engine/quant/tiles.hpp"
#include "tests/engine/model/order_support.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

// Writes the file again with other bytes at `at`, and the checksums of these.
void forge(const std::string& path, Bytes at, std::span<const std::byte> bytes) {
  std::string whole = read_file(path);
  const std::vector<PackSection> sections = read_pack_header(InputFile(path)).sections;
  std::memcpy(whole.data() + at, bytes.data(), bytes.size());
  OutputFile file(path);
  file.write(whole.substr(0, sections.front().offset));
  SectionWriter out(file);
  for (const PackSection& section : sections) {
    out.write(std::as_bytes(std::span(whole)).subspan(section.offset, section.bytes));
    out.end_section();
  }
  out.write_table();
  file.commit();
}

class PackContents : public testing::Test {
 protected:
  // A model whose matrices have that format, packed in that layout; answers where a weight lies.
  Weight packed(Format format, std::string_view layout, std::string_view name) {
    SmallModel model;
    model.matrices = format;
    model.write(gguf_);
    const PackedModel made = pack_to(Gguf::open(gguf_), pack_options_of(layout), path_);
    return *std::ranges::find(made.weights, name, &Weight::name);
  }
  std::vector<std::byte> bytes_of(const Weight& weight, Bytes from, Bytes count) const {
    std::vector<std::byte> bytes(count);
    InputFile(path_).read_at(weight.extent.offset + from, bytes);
    return bytes;
  }
  std::string refusal() const {
    EXPECT_NO_THROW(verify_packed(path_)) << "its checksums are right";
    return message_of([&] { open_packed(path_, Gguf::open(gguf_), folder_ / "notes"); });
  }
  // Changes row 19 of a weight, as Layout::rows has it.
  void forge_row(const Weight& weight, const std::function<void(std::byte*)>& change) const {
    const std::size_t row = row_bytes(weight.format, weight.columns), together = group_rows(weight.layout);
    const Bytes group = together * row_bytes(weight.format, weight.columns, weight.layout), at = 19 / together * group;
    std::vector<std::byte> placed = bytes_of(weight, at, group), rows(together * row);
    if (weight.layout == Layout::rows) {
      change(placed.data());
    } else {
      unpack_tile(weight.format, weight.columns, placed.data(), rows.data(), weight.layout);
      change(rows.data() + 19 % together * row);
      pack_tile(weight.format, weight.columns, rows.data(), placed.data(), weight.layout);
    }
    forge(path_, weight.extent.offset + at, placed);
  }

  ScratchFolder folder_;
  const std::string gguf_ = folder_ / "m.gguf", path_ = folder_ / "m.vpack";
};

TEST_F(PackContents, outliers_beyond_their_row_are_refused_in_every_layout) {
  for (const char* layout : {"rows", "tiled"}) {
    const Weight up = packed(Format::w4_outliers, layout, "blk.1.ffn_up.weight");
    EXPECT_EQ(to_string(up.layout), layout);
    EXPECT_EQ(refusal(), "");
    forge_row(up, [&](std::byte* row) { row[OutlierRow{up.columns}.positions() + 1] = std::byte{0xff}; });
    EXPECT_THAT(refusal(), HasSubstr("m.vpack: blk.1.ffn_up.weight: damaged: row 19: outlier 0 is at column 65")) << layout;
    EXPECT_THAT(refusal(), HasSubstr("(expected one below 64)")) << "again: no note says that it is good";
  }
}

TEST_F(PackContents, zero_points_that_are_no_codes_and_second_scales_of_a_row_are_refused) {
  Weight up = packed(Format::w(2, 32, 'z'), "rows", "blk.1.ffn_up.weight");
  forge_row(up, [&](std::byte* row) { row[2] = std::byte{200}; });
  EXPECT_THAT(refusal(), HasSubstr("blk.1.ffn_up.weight: damaged: block 38 has the zero point 200 (expected 0 to 3"));
  up = packed(Format::w(2, 32, 'r'), "rows", "blk.0.ffn_up.weight");
  forge_row(up, [&](std::byte* row) { row[10] ^= std::byte{1}; });
  EXPECT_THAT(refusal(), HasSubstr("blk.0.ffn_up.weight: damaged: row 19 begins with the scale"));
}

// A field of four bits holds more than a code of three.
TEST_F(PackContents, zero_points_in_tiles_are_read_too) {
  const Weight up = packed(Format::w(3, 32, 'z'), "tiled", "blk.1.ffn_up.weight");
  ASSERT_EQ(up.layout, Layout::tiled);
  forge(path_, up.extent.offset, std::vector(16, std::byte{0x1f}));  // the first bytes of a tile are its zero points
  EXPECT_THAT(refusal(), HasSubstr("blk.1.ffn_up.weight: damaged: block 0 has the zero point 15 (expected 0 to 7"));
}

TEST_F(PackContents, an_order_of_columns_has_to_be_the_models) {
  SmallModel model;
  model.matrices = Format::f32;
  model.write(folder_ / "plain.gguf");
  write_reordered(folder_ / "plain.gguf", gguf_, {{"blk.1.ffn_down.weight", random_order(96, 3)}});
  const Gguf gguf = Gguf::open(gguf_);
  const std::uint32_t third = read_input_order(gguf, "blk.1.ffn_down.weight")[2];
  const PackedModel made = pack_to(gguf, {}, path_);
  const Weight& order = *std::ranges::find(made.weights, Role::ffn_down_order, &Weight::role);
  EXPECT_EQ(refusal(), "");
  for (const std::uint32_t entry : {4'000'000'000u, 96u, (third + 1) % 96}) {
    forge(path_, order.extent.offset + 8, std::as_bytes(std::span(&entry, 1)));
    EXPECT_THAT(refusal(), HasSubstr("m.vpack: blk.1.ffn_down.order: damaged: entry 2 is " + std::to_string(entry) + " (expected " +
                                     std::to_string(third) + ", as "));
  }
}

TEST_F(PackContents, an_order_of_neurons_has_to_be_a_permutation) {
  SmallModel model;
  model.write(gguf_);
  std::vector<std::uint32_t> backwards(model.config.ffn);
  for (std::uint32_t i = 0; i < model.config.ffn; ++i) backwards[i] = model.config.ffn - 1 - i;
  pack_to(Gguf::open(gguf_), {.bundles = BundleForm::one_read, .order = NeuronOrder({backwards, backwards}, model.config, "test")}, path_);
  EXPECT_EQ(refusal(), "");
  const std::uint32_t beyond = model.config.ffn;
  forge(path_, read_pack_header(InputFile(path_)).sections.back().offset, std::as_bytes(std::span(&beyond, 1)));
  EXPECT_THAT(refusal(), HasSubstr("m.vpack: layer 0, expert 0: neuron 96 (expected less than 96)"));
}

TEST_F(PackContents, a_forged_file_in_the_cache_is_made_anew) {
  SmallModel model;
  model.matrices = Format::w4_outliers;
  model.write(gguf_);
  const Gguf gguf = Gguf::open(gguf_);
  const PackedModel made = pack(gguf, {}, folder_ / "cache");
  const std::string whole = read_file(made.path);
  const Weight& up = *std::ranges::find(made.weights, std::string("blk.1.ffn_up.weight"), &Weight::name);
  forge(made.path, up.extent.offset + 16 * OutlierRow{up.columns}.positions(), std::vector(2, std::byte{0xff}));
  EXPECT_FALSE(pack(gguf, {}, folder_ / "cache").reused);
  EXPECT_EQ(read_file(made.path), whole);
}

}  // namespace
}  // namespace vitro
