// Tile groups in files: how quantize() writes them, how rows are read of them, and that a packed file has their bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "engine/model/gguf_writer.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/quantize.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

std::vector<float> tile_values(const Gguf& gguf, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.rows() * row_bytes(tensor.format, tensor.columns()));
  gguf.read(tensor, 0, bytes);
  std::vector<float> values(tensor.rows() * tensor.columns());
  dequantise_row(tensor.format, bytes.data(), values.data(), values.size());
  return values;
}

TEST(TileGroupFiles, tile_groups_are_written_as_the_matrix_unit_takes_them) {
  const ScratchFolder folder;
  SmallModel model;
  model.config.width = 128;  // whole pairs of tiles
  model.write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "q.gguf", "q4_0_tile");
  const Gguf gguf = Gguf::open(folder / "q.gguf"), source = Gguf::open(folder / "m.gguf");
  const TensorInfo& up = *gguf.find_tensor("blk.0.ffn_up.weight");
  ASSERT_EQ(up.format, Format::q4_0_tile);
  EXPECT_EQ(up.size * 8, up.rows() * up.columns() * 9 / 2);
  const std::vector<float> w = tile_values(source, *source.find_tensor(up.name));
  const std::size_t strip = up.size / (up.rows() / kStripRows);
  std::vector<std::byte> stored(up.size), expected(strip);
  gguf.read_stored(up, 0, stored);
  std::vector<float> values(w.size());
  for (std::size_t s = 0; s < up.rows() / kStripRows; ++s) {
    quantise_strip(w.data() + s * kStripRows * up.columns(), up.columns(), expected.data());
    ASSERT_TRUE(std::ranges::equal(expected, std::span(stored).subspan(s * strip, strip))) << s;
    dequantise_strip_rows(expected.data(), up.columns(), 0, kStripRows, values.data() + s * kStripRows * up.columns());
  }
  EXPECT_EQ(tile_values(gguf, up), values);
  // Bytes are copied, rows are read from any byte on, and other formats are made of them.
  quantize(folder / "q.gguf", folder / "again.gguf", "q4_0_tile");
  EXPECT_EQ(read_file(folder / "again.gguf"), read_file(folder / "q.gguf"));
  std::vector<std::byte> all(up.rows() * row_bytes(up.format, up.columns())), part(777);
  gguf.read(up, 0, all);
  gguf.read(up, all.size() - 12345, part);
  EXPECT_TRUE(std::ranges::equal(part, std::span(all).subspan(all.size() - 12345, part.size())));
  quantize(folder / "q.gguf", folder / "q8.gguf", "q8_0");
  EXPECT_LT(weight_error(folder / "q8.gguf", folder / "q.gguf").relative, 0.01);
}

// Of rows or columns that are no whole tiles.
TEST(TileGroupFiles, what_has_no_tile_groups_gets_ordinary_ones) {
  const ScratchFolder folder;
  SmallModel model;
  model.write(folder / "m.gguf");
  quantize(folder / "m.gguf", folder / "q.gguf", "q4_0_tile");
  const Gguf gguf = Gguf::open(folder / "q.gguf");
  for (const TensorInfo& tensor : gguf.tensors()) {
    if (tensor.format != Format::q4_0 && tensor.format != Format::q4_0_tile) continue;
    EXPECT_EQ(tensor.format == Format::q4_0_tile, can_store(Format::q4_0_tile, tensor.dims[1], tensor.columns())) << tensor.name;
  }
}

// Of every expert; what is turned or kept in int8 beside them is made of their values.
TEST(TileGroupFiles, tile_groups_are_packed_as_the_file_has_them) {
  const ScratchFolder folder;
  for (const std::string name : {"reglu-3m", "moe-6m"}) {
    quantize(embedded("stories-" + name + ".f16.gguf"), folder / (name + ".gguf"), "q4_0_tile");
    const Gguf gguf = Gguf::open(folder / (name + ".gguf"));
    const PackedModel packed = pack(gguf, {}, folder.str());
    const InputFile file(packed.path);
    std::size_t strips = 0;
    for (const Weight& weight : packed.weights) {
      if (weight.format != Format::q4_0_tile) continue;
      ++strips;
      ASSERT_EQ(weight.layout, Layout::strips);
      const TensorInfo& tensor = *gguf.find_tensor(weight.name);
      std::vector<std::byte> stored(tensor.size), placed(weight.extent.length);
      gguf.read_stored(tensor, 0, stored);
      file.read_at(weight.extent.offset, placed);
      EXPECT_EQ(placed, stored) << weight.name;
    }
    EXPECT_GE(strips, 16u);
    PackOptions bundles;
    bundles.bundles = BundleForm::automatic;
    for (const Weight& weight : pack(gguf, bundles, folder.str()).weights) {
      if (weight.role == Role::ffn_bundle) {
        EXPECT_EQ(weight.format, Format::q8_0);
      }
    }
  }
}

// A predictor's rows, and an embedding's, are read one by one.
TEST(TileGroupFiles, tile_groups_of_what_is_read_by_row_are_refused) {
  const ScratchFolder folder;
  const Gguf in = Gguf::open(embedded("stories-reglu-3m.f16.gguf"));
  GgufWriter out(folder / "bad.gguf");
  for (const auto& [key, value] : in.values()) out.add(key, value);
  for (const TensorInfo& tensor : in.tensors()) {
    out.add_tensor(tensor.name, tensor.dims, tensor.name == "token_embd.weight" ? Format::q4_0_tile : tensor.format);
  }
  for (const TensorInfo& tensor : in.tensors()) {
    const Layout layout = tensor.name == "token_embd.weight" ? Layout::strips : Layout::rows;
    const Format format = layout == Layout::strips ? Format::q4_0_tile : tensor.format;
    out.write(std::vector<std::byte>(row_bytes(format, tensor.columns(), layout) * tensor.rows()));
  }
  out.commit();
  const Gguf bad = Gguf::open(folder / "bad.gguf");
  const std::string message = message_of([&] { pack(bad, {}, folder.str()); });
  EXPECT_NE(message.find("token_embd.weight: is read row by row, which q4_0_tile can not be"), std::string::npos) << message;
}

}  // namespace
}  // namespace vitro
