// The sections of `engine:`: what an empty one means, what each key sets, and what is refused where it stands.
#include <gtest/gtest.h>

#include "engine/parts/register_parts.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

// What read(Reader) makes of a section, or says about it.
template <class F>
auto read(const char* json, F section) {
  const Node root = Node::map({{"section", parse_json(json, "e.json")}});
  Reader reader(root, "engine");
  return section(reader.child("section"));
}
template <class F>
std::string error_of(const char* json, F section) {
  try {
    read(json, section);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

WeightsConfig weights_of(Reader reader) { return read_weights(std::move(reader), weights_kinds().names(), evictions().names()); }
PlacementConfig placement_of(Reader reader) { return read_placement(std::move(reader), placement_kinds()); }
ProductsConfig products_of(Reader reader) { return read_products(std::move(reader), "float", true); }

template <class F>
void expect_says(const char* json, F section, const std::string& what) {
  const std::string error = error_of(json, section);
  EXPECT_NE(error.find(what), std::string::npos) << json << ": \"" << error << "\" instead of " << what;
}

TEST(WeightsSection, an_empty_one_keeps_all_in_dram) {
  const WeightsConfig weights = read("{}", weights_of);
  EXPECT_EQ(weights.kind, "dram");
  EXPECT_EQ(weights.read_ahead, 128 * KiB);
  EXPECT_TRUE(weights.repack);
  EXPECT_FALSE(weights.embedding_in_flash);
  EXPECT_FALSE(weights.bundles.has_value());
}

TEST(WeightsSection, its_keys_are_those_of_its_kinds) {
  const WeightsConfig paged = read(R"({"kind": "paged", "read_ahead": "64 KiB", "embedding": "flash", "repack": false})", weights_of);
  EXPECT_EQ(paged.kind, "paged");
  EXPECT_EQ(paged.read_ahead, 64 * KiB);
  EXPECT_TRUE(paged.embedding_in_flash);
  EXPECT_FALSE(paged.repack);
  const WeightsConfig bundles = read(R"({"kind": "bundles", "eviction": "window", "window": 5, "staging": "1 MiB", "two_phases": false,
                                         "cache": false, "report_bound": true})",
                                     weights_of);
  EXPECT_EQ(bundles.neurons.eviction, "window");
  EXPECT_EQ(bundles.neurons.window, 5u);
  EXPECT_EQ(bundles.neurons.staging, MiB);
  EXPECT_FALSE(bundles.neurons.two_phases);
  EXPECT_FALSE(bundles.neurons.cache);
  EXPECT_TRUE(bundles.neurons.report_bound);
}

TEST(WeightsSection, a_layout_is_one_of_bundles_where_there_are_any) {
  EXPECT_EQ(read(R"({"kind": "bundles"})", weights_of).bundles, BundleForm::automatic);
  EXPECT_EQ(read(R"({"kind": "bundles", "bundle": false})", weights_of).bundles, BundleForm::apart);
  EXPECT_EQ(read(R"({"kind": "bundles", "layout": "bundles"})", weights_of).bundles, BundleForm::one_read);
  EXPECT_EQ(read(R"({"kind": "bundles", "layout": "bundles_two_phase", "bundle": false})", weights_of).bundles,
            BundleForm::apart_two_phases);
  EXPECT_EQ(read(R"({"layout": "rows"})", weights_of).bundles, std::nullopt);
  expect_says(R"({"layout": "bundles"})", weights_of, "engine.section.layout: ");
  expect_says(R"({"kind": "bundles", "layout": "rows"})", weights_of, "engine.section.layout: ");
  expect_says(R"({"kind": "bundles", "layout": "scales_inline", "bundle": false})", weights_of, "engine.section.bundle is false");
}

TEST(WeightsSection, what_is_wrong_is_said_where_it_stands) {
  expect_says(R"({"kind": "tape"})", weights_of,
              "e.json:1: engine.section.kind: \"tape\" (expected one of: dram, paged, streamed, experts, bundles)");
  expect_says(R"({"read_ahead": "1000 B"})", weights_of, "engine.section.read_ahead: 1000 bytes (expected a multiple");
  expect_says(R"({"eviction": "random"})", weights_of, "engine.section.eviction: ");
  expect_says(R"({"window": 3})", weights_of, "engine.section.window: can not be combined with engine.section.eviction: step_lru");
  expect_says(R"({"embeding": "flash"})", weights_of, "did you mean \"embedding\"");
}

TEST(KvSection, an_empty_one_keeps_floats_in_dram) {
  const KvConfig kv = read("{}", read_kv);
  EXPECT_EQ(kv.format, Format::f32);
  EXPECT_FALSE(kv.per_query_head);
  EXPECT_EQ(kv.block_tokens, 16u);
  EXPECT_FALSE(kv.dram_tokens.has_value());
  EXPECT_TRUE(kv.prefetch);
}

TEST(KvSection, its_keys_say_how_and_where) {
  const KvConfig kv =
      read(R"({"format": "int8_fp8", "per": "query_head", "block_tokens": 4, "dram_tokens": 0, "prefetch": false})", read_kv);
  EXPECT_EQ(kv.format, Format::int8_fp8);
  EXPECT_TRUE(kv.per_query_head);
  EXPECT_EQ(kv.block_tokens, 4u);
  EXPECT_EQ(kv.dram_tokens, 0u);
  EXPECT_FALSE(kv.prefetch);
  expect_says(R"({"prefetch": false})", read_kv, "engine.section.prefetch: needs engine.section.dram_tokens");
  expect_says(R"({"format": "q4_0"})", read_kv, "engine.section.format: ");
  expect_says(R"({"format": "q4_0"})", read_kv, "f32, f16, int8_fp8, int4_fp8, int8_e5m2, int4_e5m2");
  for (const Format format : kKvFormats) {
    EXPECT_EQ(read((R"({"format": ")" + std::string(to_string(format)) + R"("})").c_str(), read_kv).format, format);
  }
  expect_says(R"({"block_tokens": 0})", read_kv, "engine.section.block_tokens: ");
}

TEST(KvSection, a_brought_rule_that_is_registered_as_well_is_listed_once) {
  const auto with_two = [](Reader reader) { return read_kv_with(std::move(reader), {{"recent"}, {"mine"}}); };
  const std::string error = error_of(R"({"keep": "newest"})", with_two);
  EXPECT_NE(error.find(", mine"), std::string::npos) << error;
  EXPECT_EQ(error.find("recent"), error.rfind("recent")) << error;
}

TEST(PlacementSection, units_are_named_or_counted) {
  EXPECT_EQ(read("{}", placement_of).kind, "cores");
  EXPECT_EQ(read("{}", placement_of).threads, 0u) << "as many as help";
  EXPECT_EQ(read(R"({"threads": "auto"})", placement_of).threads, 0u);
  EXPECT_EQ(read(R"({"threads": 3})", placement_of).threads, 3u);
  EXPECT_EQ(read(R"({"units": "cpu1"})", placement_of).units, std::vector<std::string>{"cpu1"});
  EXPECT_EQ(read(R"({"units": ["cpu1", "npu"]})", placement_of).units, (std::vector<std::string>{"cpu1", "npu"}));
  EXPECT_EQ(read(R"({"kind": "unit", "unit": "gpu"})", placement_of).units, std::vector<std::string>{"gpu"});
  EXPECT_EQ(read(R"({"kind": "unit", "unit": "gpu", "units": ["npu"]})", placement_of).units, std::vector<std::string>{"npu"});
  expect_says(R"({"units": ["cpu1"], "threads": 2})", placement_of,
              "engine.section.threads: can not be combined with engine.section.units");
  expect_says(R"({"units": ["cpu1", "cpu1"]})", placement_of, "engine.section.units: \"cpu1\" is named twice");
  expect_says(R"({"units": []})", placement_of, "engine.section.units: is empty");
  expect_says(R"({"units": [["cpu1"]]})", placement_of, "engine.section.units: has an entry that is not the name of a unit");
}

TEST(PlacementSection, an_accelerator_comes_with_its_splits) {
  const PlacementConfig placement = read(R"({"unit": "npu", "prefill": false, "splits": [{"batch": 1, "hot": "25%"},
                                                     {"batch": 4, "attention": "50%", "head": "10%"}]})",
                                         placement_of);
  EXPECT_EQ(placement.unit, "npu");
  EXPECT_FALSE(placement.prefill);
  ASSERT_EQ(placement.splits.size(), 2u);
  EXPECT_EQ(placement.splits[0].hot, 0.25);
  EXPECT_EQ(placement.splits[1].batch, 4u);
  EXPECT_EQ(placement.splits[1].attention, 0.5);
  EXPECT_EQ(placement.splits[1].head, 0.1);
  expect_says(R"({"unit": "npu"})", placement_of, "engine.section.splits: is missing");
  expect_says(R"({"splits": [{"batch": 1}]})", placement_of, "engine.section.unit: is missing");
  expect_says(R"({"unit": "npu", "splits": []})", placement_of, "engine.section.splits: is empty");
  expect_says(R"({"unit": "npu", "splits": [{"batch": 2}, {"batch": 2}]})", placement_of, "batch: is not ascending");
}

TEST(PlacementSection, what_is_for_a_kind_is_kept_for_it) {
  const PlacementConfig placement = read(
      R"({"kind": "chunk_attention", "graph_units": ["ane0"], "attention": "cores", "outliers": "10%", "sessions": 2,
          "options": {"a": 1}})",
      placement_of);
  EXPECT_EQ(placement.graph_units, std::vector<std::string>{"ane0"});
  EXPECT_FALSE(placement.attention_on_unit);
  EXPECT_EQ(placement.outliers, 0.1);
  EXPECT_EQ(placement.sessions, 2u);
  EXPECT_FALSE(placement.stages_kv);
  EXPECT_TRUE(read(R"({"kv": "staged"})", placement_of).stages_kv);
  EXPECT_NE(placement.options.find("a"), nullptr);
  expect_says(R"({"outliers": "100%"})", placement_of, "engine.section.outliers: leaves nothing for the accelerator");
  EXPECT_EQ(placement.head, 0);
  EXPECT_EQ(read(R"({"kind": "layers", "head": "25%"})", placement_of).head, 0.25);
  expect_says(R"({"head": "25%"})", placement_of, "engine.section.head: is a share of what kind layers leaves to the cores");
  expect_says(R"({"kind": "prompts", "head": "0%"})", placement_of, "and the kind is prompts");
  expect_says(R"({"kind": "layers", "head": "101%"})", placement_of, "engine.section.head: ");
  expect_says(R"({"kv": "flash"})", placement_of, "engine.section.kv: ");
  expect_says(R"({"kind": "moon"})", placement_of, "engine.section.kind: ");
}

TEST(ProductsSection, a_contract_for_answers_and_one_for_prompts) {
  const ProductsConfig plain = read("{}", products_of);
  EXPECT_EQ(plain.isa, "auto");
  EXPECT_EQ(plain.matmul, variant::kFloat);
  EXPECT_EQ(plain.prefill_matmul, VariantId{});
  EXPECT_EQ(plain.codes, CodeMatmul::automatic);
  const ProductsConfig given = read(
      R"({"isa": "portable", "numerics": "int8", "prefill_numerics": "fp16", "codes": "lut", "code_bits": 4, "decode": "lut",
          "prefill": "convert", "decode_rows": 3, "share_precompute": false})",
      products_of);
  EXPECT_EQ(given.isa, "portable");
  EXPECT_EQ(given.matmul, variant::kInt8);
  EXPECT_EQ(given.prefill_matmul, variant::kHmx);
  EXPECT_EQ(given.codes, CodeMatmul::look_up);
  EXPECT_EQ(given.code_bits, 4u);
  EXPECT_EQ(given.methods.of(3), Method::lut);
  EXPECT_EQ(given.methods.of(4), Method::convert);
  EXPECT_FALSE(given.methods.share_precompute);
}

TEST(ProductsSection, what_a_hexagon_multiplies_is_its_matrix_units_unless_it_is_asked_for_otherwise) {
  const auto beside = [](Reader reader) { return read_products(std::move(reader), "fp16", true); };
  EXPECT_EQ(read("{}", beside).matmul, variant::kHmx);
  EXPECT_EQ(read(R"({"numerics": "int8"})", beside).matmul, variant::kInt8);
}

TEST(ProductsSection, a_gpu_has_its_contract_and_ways_to_carry_products_out) {
  const ProductsConfig given =
      read(R"({"decode": "image", "prefill": "buffer"})", [](Reader reader) { return read_products(std::move(reader), "a16", true); });
  EXPECT_EQ(given.matmul, variant::kA16);
  EXPECT_EQ(given.methods.of(1), Method::image);
  EXPECT_EQ(given.methods.of(2), Method::buffer);
  EXPECT_TRUE(is_gpu_name("gpu") && is_gpu_name("gpu1") && !is_gpu_name("npu"));
}

TEST(ProductsSection, look_ups_need_codes_of_int8_in_a_layout_of_their_own) {
  expect_says(R"({"codes": "lut"})", products_of, "engine.section.codes: lut needs int8 activations");
  expect_says(R"({"codes": "dot", "numerics": "int8_tables"})", products_of, "engine.section.codes: dot can not be combined with");
  const auto as_packed = [](Reader reader) { return read_products(std::move(reader), "float", false); };
  expect_says(R"({"codes": "lut", "numerics": "int8"})", as_packed, "engine.weights.repack: false");
  expect_says(R"({"numerics": "int4"})", products_of, "engine.section.numerics: ");
}

}  // namespace
}  // namespace vitro
