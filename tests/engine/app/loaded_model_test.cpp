#include "engine/app/loaded_model.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/base/check.hpp"
#include "engine/kernels/code_methods.hpp"
#include "engine/model/quantize.hpp"
#include "engine/ops/variants.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;

using test::kModels;

const std::string kModel = kModels + "stories-reglu-3m.q8_0.gguf";

class LoadedModelTest : public testing::Test {
 protected:
  LoadedModelTest() : folder_(fs::temp_directory_path() / ("vitro_loaded_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    engine_.products.matmul = variant::kFloat;
  }
  ~LoadedModelTest() override { fs::remove_all(folder_); }

  std::string packed(const std::string& layout) {
    const std::string path = (folder_ / (layout + ".vpack")).string();
    pack_to(Gguf::open(kModel), pack_options_of(layout), path);
    return path;
  }
  LoadedModel load(const std::string& gguf, const std::string& pack) {
    return load_model({.gguf = gguf, .pack = pack, .shape = {}}, engine_, (folder_ / "cache").string());
  }
  std::string refusal(const std::string& gguf, const std::string& pack) {
    try {
      load(gguf, pack);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  EngineConfig engine_;
};

bool has_bundles(const LoadedModel& model) { return model.packed->store(FileId{}).find(Role::ffn_bundle, 0) != nullptr; }

TEST_F(LoadedModelTest, the_cache_makes_the_layout_that_the_engine_asks_for) {
  EXPECT_FALSE(has_bundles(load(kModel, "")));
  engine_.weights.bundles = BundleForm::automatic;
  const LoadedModel one = load(kModel, "");
  EXPECT_TRUE(has_bundles(one));
  engine_.weights.bundles = BundleForm::two_phases;
  const LoadedModel two = load(kModel, "");
  EXPECT_TRUE(two.packed->store(FileId{}).get(Role::ffn_bundle, 0).form == BundleForm::two_phases);
  EXPECT_NE(one.packed->path, two.packed->path);
  EXPECT_TRUE(load(kModel, "").packed->reused);
}

TEST_F(LoadedModelTest, shapes_alone_have_bundles_too) {
  engine_.weights.bundles = BundleForm::automatic;
  const Node shape = parse_json(R"({"format": "q4_0", "shape": {"family": "llama", "name": "tiny", "layers": 1, "width": 4096,
      "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 64, "context": 64, "norm_eps": 1e-5, "activation": "relu",
      "rope_base": 10000}})",
                                "shape.json");
  const LoadedModel model = load_model({.gguf = "", .pack = "", .shape = shape}, engine_, "");
  const WeightStore store = phantom_weights(model.config, model.phantom_format, FileId{}, model.phantom_bundles);
  EXPECT_EQ(store.ffn_bytes(), 14336 * (8 * KiB + 3 * 256));
}

TEST_F(LoadedModelTest, shapes_alone_have_any_format_that_matrices_can_be_made_in) {
  const auto load_shape = [&](const std::string& format) {
    const Node shape = parse_json(R"({"format": ")" + format + R"(", "shape": {"family": "llama", "name": "tiny", "layers": 1, "width": 256,
                                  "heads": 4, "kv_heads": 1, "ffn": 640, "vocab": 64, "context": 64, "norm_eps": 1e-5, "activation": "relu",
                                  "rope_base": 10000}})",
                                  "shape.json");
    return load_model({.gguf = "", .pack = "", .shape = shape}, engine_, "");
  };
  const LoadedModel model = load_shape("w2g128");
  const WeightStore store = phantom_weights(model.config, model.phantom_format, FileId{}, std::nullopt);
  EXPECT_EQ(store.get(Role::ffn_down, 0).extent.length, 256u * 640 / 128 * 34);
  for (const std::string wrong : {"w5g32", "q4_nibbles", "index32"}) {
    EXPECT_THROW(load_shape(wrong), ConfigError) << wrong;
  }
}

TEST_F(LoadedModelTest, a_named_pack_is_used_as_it_is) {
  const std::string path = packed("bundles");
  const LoadedModel model = load(kModel, path);
  EXPECT_EQ(model.packed->path, path);
  EXPECT_TRUE(has_bundles(model));
  engine_.weights.bundles = BundleForm::automatic;
  EXPECT_EQ(refusal(kModel, path), "");
}

TEST_F(LoadedModelTest, a_pack_that_the_engine_can_not_run_is_refused) {
  EXPECT_NE(refusal(kModel, packed("tiled")).find("holds tiled matrices (expected engine.products.numerics: int8"), std::string::npos);
  engine_.products.matmul = variant::kInt8;
  EXPECT_EQ(refusal(kModel, packed("tiled")), "");
  engine_.weights.bundles = BundleForm::automatic;
  EXPECT_NE(refusal(kModel, packed("rows")).find("holds no neuron bundles (expected layout auto)"), std::string::npos);
  engine_.weights.bundles = BundleForm::two_phases;
  EXPECT_NE(refusal(kModel, packed("bundles")).find("an FFN in layout bundles (expected layout bundles_two_phase"), std::string::npos);
}

TEST_F(LoadedModelTest, matrices_lie_as_the_chosen_products_want_them) {
  const std::string path = (folder_ / "w2.gguf").string();
  quantize(kModels + "stories-reglu-3m.f16.gguf", path, "w2g64z");
  engine_.products.matmul = variant::kInt8;
  const auto layout = [&](const std::string& gguf, CodeMatmul products) {
    engine_.products.codes = products;
    const LoadedModel model = load(gguf, "");
    for (const Weight& weight : model.packed->weights) {
      if (weight.role == Role::ffn_up) return weight.layout;
    }
    return Layout::rows;
  };
  const std::string q4_0 = kModels + "stories-reglu-3m.q4_0.gguf";
  for (const auto& [set, expected] : {std::pair{"avx2", Layout::lut}, {"avx512", Layout::tiled}, {"neon-i8mm", Layout::tiled}}) {
    engine_.products.simulated_set = set;
    EXPECT_EQ(layout(path, CodeMatmul::automatic), expected) << set;
  }
  engine_.products.simulated_set = "avx2";
  engine_.placement.units = {"cpu0", "npu"};
  EXPECT_EQ(layout(path, CodeMatmul::automatic), Layout::tiled) << "an accelerator lays rows out itself";
  engine_.placement.units.clear();
  engine_.products.simulated_set.clear();  // the host's own
  EXPECT_EQ(layout(path, CodeMatmul::automatic), looks_up_faster("auto", 2) ? Layout::lut : Layout::tiled);
  EXPECT_EQ(layout(path, CodeMatmul::dot), Layout::tiled);
  EXPECT_EQ(layout(q4_0, CodeMatmul::automatic), Layout::tiled);
  EXPECT_EQ(layout(q4_0, CodeMatmul::look_up), Layout::lut);
  EXPECT_EQ(layout(kModel, CodeMatmul::look_up), Layout::tiled);  // q8_0 has no bit planes

  engine_.products.codes = CodeMatmul::look_up;
  engine_.products.code_bits = 4;
  EXPECT_EQ(refusal(q4_0, ""), "");
  const std::string narrow = refusal(path, "");
  EXPECT_NE(narrow.find("engine.products.code_bits: 4: the model has no 4-bit matrix"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("w2g64z"), std::string::npos) << narrow;
  engine_.products.code_bits = 0;
  pack_to(Gguf::open(path), pack_options_of("tiled"), (folder_ / "dot.vpack").string());
  EXPECT_NE(refusal(path, (folder_ / "dot.vpack").string()).find("holds matrices for dot products (expected engine.products.codes: dot"),
            std::string::npos);
  engine_.products.codes = CodeMatmul::dot;
  EXPECT_EQ(refusal(path, (folder_ / "dot.vpack").string()), "");
  pack_to(Gguf::open(path), pack_options_of("lut"), (folder_ / "lut.vpack").string());
  EXPECT_NE(refusal(path, (folder_ / "lut.vpack").string()).find("holds matrices laid out for table look-up"), std::string::npos);
}

TEST_F(LoadedModelTest, a_missing_model_is_named_with_the_place_that_names_it) {
  const std::string none = (folder_ / "none.gguf").string();
  ModelSource source{.gguf = none, .pack = "", .shape = {}};
  source.gguf_at = {std::make_shared<const std::string>("exp.yaml"), 4};
  try {
    load_model(source, engine_, (folder_ / "cache").string());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), "exp.yaml:4: model.gguf: \"" + none + "\" is not a file (paths start at the file that names them)");
  }
}

TEST_F(LoadedModelTest, a_pack_of_another_model_or_a_damaged_one_is_refused) {
  const std::string path = packed("rows");
  EXPECT_NE(refusal(kModels + "stories-reglu-3m.f16.gguf", path).find("made from another source"), std::string::npos);
  EXPECT_NE(refusal(kModel, kModel).find("not a packed file"), std::string::npos);
  EXPECT_NE(refusal(kModel, (folder_ / "none").string()).find("can not open"), std::string::npos);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
  file.put('\x5a').put('\xa5');
  file.close();
  EXPECT_NE(refusal(kModel, path).find("is damaged between bytes"), std::string::npos) << refusal(kModel, path);
  fs::resize_file(path, fs::file_size(path) / 2);
  EXPECT_NE(refusal(kModel, path).find("bytes long"), std::string::npos) << refusal(kModel, path);
}

}  // namespace
}  // namespace vitro
