// Models without weights, from configs/models/*.yaml. Not built for targets that have no YAML library.
#include "engine/base/config.hpp"
#include "engine/model/model_config.hpp"
#include "tests/engine/model/support.hpp"
#include "tests/source_path.hpp"

namespace vitro {
namespace {

TEST(ModelConfig, shape_only_models_come_from_yaml) {
  const Node file = load_yaml(test::source_path("configs/models/llama-7b-shape.yaml"));
  Reader reader(file, "");
  Reader shape = reader.child("shape");
  const ModelConfig c = config_from_node(shape);
  EXPECT_EQ(c.layers, 32u);
  EXPECT_EQ(c.head_dim, 128u);
  const WeightStore store = phantom_weights(c, Format::q4_0, FileId{3});
  EXPECT_EQ(store.ffn_bytes(), 32ull * 3 * 4096 * 11008 / 32 * 18);
  EXPECT_EQ(store.get(Role::ffn_up, 31).layout, Layout::tiled);
  EXPECT_EQ(store.get(Role::token_embedding).layout, Layout::rows);
  Bytes end = 0;
  for (const Weight& w : store.all()) {
    EXPECT_EQ(w.extent.offset % kPageSize, 0u);
    EXPECT_GE(w.extent.offset, end);
    EXPECT_EQ(w.extent.file, FileId{3});
    end = w.extent.offset + w.extent.length;
  }
}

TEST(ModelConfig, a_wrong_shape_file_names_line_and_key) {
  const auto error = [](std::string_view yaml) {
    return message_of([&] {
      const Node node = parse_yaml(yaml, "m.yaml");
      Reader reader(node, "shape");
      config_from_node(reader);
    });
  };
  const std::string good = "layers: 2\nwidth: 64\nheads: 4\nffn: 96\nvocab: 48\ncontext: 32\n";
  EXPECT_EQ(error(good), "");
  EXPECT_NE(error("layers: 2\nwidth: 65\nheads: 4\nffn: 96\nvocab: 48\ncontext: 32\n").find("m.yaml:3"), std::string::npos);
  EXPECT_NE(error(good + "kv_heads: 3\n").find("shape.kv_heads"), std::string::npos);
  EXPECT_NE(error(good + "experts: 4\nexperts_used: 5\n").find("experts_used"), std::string::npos);
  const std::string mixture = good + "experts: 4\nexperts_used: 2\n";
  EXPECT_EQ(error(mixture), "");
  EXPECT_NE(error(mixture + "sub_norms: true\n").find("shape.experts: can not be combined with a norm before"), std::string::npos);
  EXPECT_NE(error(mixture + "family: bitnet\n").find("shape.experts: can not be combined with a norm before"), std::string::npos);
  EXPECT_NE(error(good + "fnn: 3\n").find("fnn"), std::string::npos);
}

}  // namespace
}  // namespace vitro
