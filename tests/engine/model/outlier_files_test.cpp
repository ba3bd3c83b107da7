// w4_outliers in files: what quantize() writes, how packed files have it, and what of a stranger's file is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "engine/model/packed_file.hpp"
#include "engine/model/quantize.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/outlier_rows.hpp"
#include "engine/quant/tiles.hpp"
#include "tests/effort.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

// The small ReLU model in w4_outliers: to look for the outliers takes seconds under sanitizers.
const std::string& quantised() {
  static const ScratchFolder folder;
  static const std::string path = [] {
    std::string made = folder / "q.gguf";
    quantize(embedded("stories-reglu-3m.f16.gguf"), made, "w4_outliers");
    return made;
  }();
  return path;
}

std::vector<float> row_values(const Gguf& gguf, const TensorInfo& tensor, std::uint64_t row) {
  std::vector<std::byte> bytes(row_bytes(tensor.format, tensor.columns()));
  gguf.read(tensor, row * bytes.size(), bytes);
  std::vector<float> values(tensor.columns());
  dequantise_row(tensor.format, bytes.data(), values.data(), values.size());
  return values;
}

TEST(OutlierFiles, quantize_writes_each_row_as_the_codec_does_and_reads_it_back) {
  const ScratchFolder folder;
  const Gguf source = Gguf::open(embedded("stories-reglu-3m.f16.gguf")), gguf = Gguf::open(quantised());
  const TensorInfo& down = *gguf.find_tensor("blk.2.ffn_down.weight");
  ASSERT_EQ(down.format, Format::w4_outliers);
  EXPECT_EQ(gguf.find_tensor("token_embd.weight")->format, Format::q8_0);
  EXPECT_EQ(down.size, down.rows() * (28 + down.columns() / 2));
  for (const std::uint64_t row : {std::uint64_t{0}, std::uint64_t{7}, down.rows() - 1}) {
    const std::vector<float> w = row_values(source, *source.find_tensor(down.name), row);
    std::vector<std::byte> expected(row_bytes(down.format, w.size())), stored(expected.size());
    quantise_row(down.format, w.data(), expected.data(), w.size());
    gguf.read(down, row * stored.size(), stored);
    EXPECT_EQ(stored, expected) << row;
  }
  // Bytes are copied, and other formats are made of the values, of rows and of groups of rows.
  quantize(quantised(), folder / "again.gguf", "w4_outliers");
  EXPECT_EQ(read_file(folder / "again.gguf"), read_file(quantised()));
  for (const char* scheme : {"q8_0", "q4_0_tile"}) {
    quantize(quantised(), folder / "other.gguf", scheme);
    EXPECT_LT(weight_error(folder / "other.gguf", quantised()).relative, std::string(scheme) == "q8_0" ? 0.02 : 0.12) << scheme;
  }
  EXPECT_NEAR(weight_error(quantised(), quantised()).bits_per_weight, 4.44, 0.1);
}

// Rows that no block fills keep their format; smaller blocks than 32 there are none.
TEST(OutlierFiles, rows_that_no_block_fills_keep_what_they_have) {
  const ScratchFolder folder;
  SmallModel model;
  model.config.ffn = 80;
  model.write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "q.gguf", "w4_outliers");
  const Gguf gguf = Gguf::open(folder / "q.gguf"), source = Gguf::open(folder / "m.gguf");
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_down.weight")->format, source.find_tensor("blk.0.ffn_down.weight")->format);
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_up.weight")->format, Format::w4_outliers);
}

TEST(OutlierFiles, packed_files_have_tiles_of_the_rows_and_bundles_their_values_in_q8_0) {
  const ScratchFolder folder;
  for (const std::string& name : test::all_or_few<std::vector<std::string>>({"reglu-3m", "moe-6m"}, {"reglu-3m"})) {
    if (name != "reglu-3m") quantize(embedded("stories-" + name + ".f16.gguf"), folder / (name + ".gguf"), "w4_outliers");
    const Gguf gguf = Gguf::open(name == "reglu-3m" ? quantised() : folder / (name + ".gguf"));
    const PackedModel packed = pack(gguf, {}, folder.str());
    const InputFile file(packed.path);
    std::size_t tiled = 0;
    for (const Weight& weight : packed.weights) {
      if (weight.format != Format::w4_outliers) continue;
      ++tiled;
      ASSERT_EQ(weight.layout, Layout::tiled);
      const TensorInfo& tensor = *gguf.find_tensor(weight.name);
      const Bytes group = kTileRows * row_bytes(tensor.format, tensor.columns());
      std::vector<std::byte> stored(tensor.size), placed(weight.extent.length), rows(group);
      gguf.read(tensor, 0, stored);
      file.read_at(weight.extent.offset, placed);
      for (Bytes at = 0; at < stored.size(); at += group) {
        unpack_tile(tensor.format, tensor.columns(), placed.data() + at, rows.data());
        ASSERT_TRUE(std::ranges::equal(rows, std::span(stored).subspan(at, group))) << weight.name;
      }
    }
    EXPECT_GE(tiled, 16u);
    PackOptions bundles;
    bundles.bundles = BundleForm::automatic;
    const PackedModel in_bundles = pack(gguf, bundles, folder.str());
    for (const Weight& weight : in_bundles.weights) {
      if (weight.role == Role::ffn_bundle) {
        EXPECT_EQ(weight.format, Format::q8_0);
      }
    }
  }
}

// A turned column is that of the values, whichever columns were read together.
TEST(OutlierFiles, bundles_hold_the_columns_of_down) {
  const ScratchFolder folder;
  const Gguf gguf = Gguf::open(quantised());
  PackOptions options;
  options.bundles = BundleForm::one_read;
  const PackedModel packed = pack(gguf, options, folder.str());
  const auto bundle = std::ranges::find(packed.weights, Role::ffn_bundle, &Weight::role);
  ASSERT_NE(bundle, packed.weights.end());
  const BundleLayout layout = bundle->bundles();
  const TensorInfo& down = *gguf.find_tensor("blk." + std::to_string(bundle->layer) + ".ffn_down.weight");
  std::vector<std::byte> placed(bundle->extent.length);
  InputFile(packed.path).read_at(bundle->extent.offset, placed);
  std::vector<std::vector<float>> rows;
  for (std::uint64_t r = 0; r < down.rows(); ++r) rows.push_back(row_values(gguf, down, r));
  std::vector<float> column(layout.width), values(layout.width);
  std::vector<std::byte> expected(row_bytes(Format::q8_0, layout.width));
  for (const std::uint32_t neuron : {0u, 33u, layout.neurons - 1}) {
    for (std::uint32_t r = 0; r < layout.width; ++r) column[r] = rows[r][neuron];
    quantise_row(Format::q8_0, column.data(), expected.data(), column.size());
    const std::byte* at = placed.data() + layout.block_of(neuron) * layout.block + layout.within_block(neuron) + layout.down;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), at)) << neuron;
  }
}

TEST(OutlierFiles, damage_is_refused_where_weights_are_used) {
  const ScratchFolder folder;
  SmallModel model;
  model.matrices = Format::w4_outliers;
  model.write(folder / "m.gguf");
  const std::string whole = read_file(folder / "m.gguf");
  const Gguf good = Gguf::open(folder / "m.gguf");
  const TensorInfo& up = *good.find_tensor("blk.1.ffn_up.weight");
  EXPECT_NO_THROW(good.check_blocks(up));
  const OutlierRow row{up.columns()};
  std::string bytes = whole;
  bytes[up.offset + 3 * row.bytes() + row.positions()] = static_cast<char>(up.columns());
  bytes[up.offset + 3 * row.bytes() + row.positions() + 1] = 0;
  write_file(folder / "bad.gguf", bytes);
  const std::string message = "bad.gguf: blk.1.ffn_up.weight: damaged: row 3: outlier 0 is at column " + std::to_string(up.columns()) +
                              " (expected one below " + std::to_string(up.columns()) + ")";
  EXPECT_THAT(message_of([&] { quantize(folder / "bad.gguf", folder / "q.gguf", "q8_0"); }), HasSubstr(message));
  EXPECT_THAT(message_of([&] { quantize(folder / "bad.gguf", folder / "q.gguf", "w4_outliers"); }), HasSubstr(message));
  const Gguf bad = Gguf::open(folder / "bad.gguf");
  for (const char* layout : {"rows", "tiled", "bundles"}) {
    EXPECT_THAT(message_of([&] { pack(bad, pack_options_of(layout), folder / "cache"); }), HasSubstr(message)) << layout;
  }
}

TEST(OutlierFiles, values_that_no_scale_holds_are_refused) {
  const std::vector<float> good(64, 65504.0f * 8);
  std::vector<float> bad = good;
  bad[9] = 65504.0f * 8.1f;
  EXPECT_EQ(first_unholdable(Format::w4_outliers, good), std::nullopt);
  EXPECT_EQ(first_unholdable(Format::w4_outliers, bad), 9u);
  for (const float x : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    bad[3] = x;
    EXPECT_EQ(first_unholdable(Format::w4_outliers, bad), 3u);
  }
}

}  // namespace
}  // namespace vitro
