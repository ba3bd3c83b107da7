#include "engine/model/product_copy.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/model/packed_file.hpp"
#include "engine/quant/blocks.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

std::vector<float> row_of(const InputFile& file, const Weight& weight, std::uint32_t row) {
  std::vector<std::byte> raw(row_bytes(weight.format, weight.columns));
  file.read_at(weight.extent.offset + row * raw.size(), raw);
  std::vector<float> values(weight.columns);
  dequantise_row(weight.format, raw.data(), values.data(), values.size());
  return values;
}

TEST(ProductCopy, holds_the_layers_products_and_nothing_else_in_eight_bits) {
  const ScratchFolder folder;
  for (const char* name : {"stories-reglu-3m.f16.gguf", "stories-moe-6m.f16.gguf", "stories-reglu-3m.q8_0.gguf"}) {
    const Gguf gguf = Gguf::open(embedded(name));
    PackOptions options;
    options.products = Format::q8_0;
    const PackedModel copy = pack(gguf, options, folder.str()), whole = pack(gguf, {{}, {}, {}, {}, {}, {}}, folder.str());
    EXPECT_EQ(copy.weights.size(), products_of(whole.config).size());
    EXPECT_NE(copy.path, whole.path);
    const WeightStore all = whole.store(FileId{});
    const InputFile eight(copy.path), file(whole.path);
    for (const Weight& weight : copy.weights) {
      EXPECT_EQ(weight.format, Format::q8_0) << weight.name;
      EXPECT_EQ(weight.layout, Layout::rows);
      EXPECT_GE(weight.layer, 0);
      const Weight& source = all.get(weight.role, weight.layer);
      const std::vector<float> wanted = row_of(file, source, weight.rows - 1), found = row_of(eight, weight, weight.rows - 1);
      float most = 0;
      for (const float x : wanted) most = std::max(most, std::abs(x));
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(found[i], wanted[i], source.format == Format::q8_0 ? 0 : most / 127) << weight.name;
    }
    EXPECT_TRUE(pack(gguf, options, folder.str()).reused);
    EXPECT_EQ(open_packed(copy.path, gguf, folder.str()).weights.size(), copy.weights.size()) << "its header says what it is";
  }
}

}  // namespace
}  // namespace vitro
