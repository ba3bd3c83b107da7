// Keys of earlier versions: each means what today's key means, in a file as on the command line.
#include "engine/app/old_engine_keys.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/app/experiment.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

Node json(const std::string& text, const std::string& file = "e.json") { return parse_json(text, file); }

Experiment read(const Node& engine) {
  Node root = json(R"({"experiment": "e", "machine": "host", "model": {"gguf": "m.gguf"}, "workload": {"prompt": "hi"}})");
  root.set("engine", engine);
  return read_experiment(root);
}
Experiment read(const std::string& engine) { return read(json(engine)); }
std::string error_of(const std::string& engine) {
  try {
    read(engine);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}
// All that was read, defaults included.
std::string all_of(const Experiment& experiment) { return experiment.resolved.find("engine")->to_json(); }

// A key's path, a value, and what it needs beside it in today's spelling.
struct Case {
  const char *old, *now, *value;
  const char* beside = "{}";
};
constexpr const char *kBundles = R"({"policy": "neuron_cluster"})",
                     *kSplits = R"({"placement": {"kind": "layers", "splits": [{"batch": 1, "hot": "25%"}]}})",
                     *kUnit = R"({"placement": {"kind": "layers", "unit": "npu"}})", *kDramTokens = R"({"kv": {"dram_tokens": 4}})",
                     *kBoth = R"({"placement": {"unit": "npu", "splits": [{"batch": 1, "hot": "25%"}]}})",
                     *kExperts = R"({"policy": "npumoe"})";
const Case kCases[] = {
    {"units", "placement.units", R"(["cpu1", "cpu2"])"},
    {"units", "placement.units", R"("cpu1")"},
    {"threads", "placement.threads", "3"},
    {"outliers", "placement.outliers", R"("5%")"},
    {"sessions", "placement.sessions", "2"},
    {"activations", "products.numerics", R"("float")"},
    {"prefill_activations", "products.prefill_numerics", R"("fp16")"},
    {"repack", "weights.repack", "false"},
    {"layout", "weights.layout", R"("bundles")", kBundles},
    {"embedding", "weights.embedding", R"("flash")"},
    {"read_ahead", "weights.read_ahead", R"("64 KiB")", R"({"policy": "mmap"})"},
    {"kv_format", "kv.format", R"("f16")"},
    {"kv_per", "kv.per", R"("query_head")"},
    {"kv_block_tokens", "kv.block_tokens", "4"},
    {"kv_dram_tokens", "kv.dram_tokens", "8"},
    {"kv_prefetch", "kv.prefetch", "false", kDramTokens},
    {"attention", "attention.kernel", R"("lut_exp")"},
    {"clusters.eviction", "weights.eviction", R"("lru")", kBundles},
    {"clusters.admission", "weights.admission", R"("bypass")", kBundles},
    {"clusters.window", "weights.window", "3", R"({"policy": "llmflash"})"},
    {"clusters.staging", "weights.staging", R"("1 MiB")", kBundles},
    {"clusters.bundle", "weights.bundle", "false", kBundles},
    {"clusters.two_phases", "weights.two_phases", "false", kBundles},
    {"clusters.cache", "weights.cache", "false", kBundles},
    {"clusters.report_bound", "weights.report_bound", "true", kBundles},
    {"clusters.pipeline", "ffn.clusters.pipeline", R"("matrix")", kBundles},
    {"clusters.neurons", "ffn.clusters.neurons", "7", kBundles},
    {"clusters.io_core", "ffn.clusters.io_core", R"("cpu0")", kBundles},
    {"clusters.io_depth", "ffn.clusters.io_depth", "9", kBundles},
    {"clusters.dense_rows", "ffn.clusters.dense_rows", "5", kBundles},
    {"clusters.threshold", "ffn.clusters.threshold", "0.5", kBundles},
    {"clusters.predictors", "ffn.clusters.predictors", "false", kBundles},
    {"clusters.measure", "ffn.clusters.measure", "true", kBundles},
    {"clusters.keep", "ffn.clusters.keep", R"("fired")", kBundles},
    {"hybrid.unit", "placement.unit", R"("npu")", kSplits},
    {"hybrid.splits", "placement.splits", R"([{"batch": 2, "hot": "50%", "attention": "10%", "head": "20%"}])", kUnit},
    {"hybrid.prefill", "placement.prefill", "false", kBoth},
    {"hybrid.cluster", "ffn.clusters.hot_cluster", "128", kBoth},
    {"hybrid.in_dram", "ffn.clusters.hot_in_dram", R"("50%")", kBoth},
    {"moe.units", "placement.graph_units", R"(["ane0"])", kExperts},
    {"moe.attention", "placement.attention", R"("cores")", kExperts},
    {"moe.graphs", "ffn.experts.graphs", "false", kExperts},
    {"moe.tiers", "ffn.experts.tiers", "false", kExperts},
    {"moe.overflow", "ffn.experts.overflow", R"("cpu")", kExperts},
    {"moe.group", "ffn.experts.group", "4", kExperts},
    {"moe.multiples", "ffn.experts.multiples", "[1, 3]", kExperts},
    {"moe.loads", "ffn.experts.loads", "[[0.5, 0.5]]", kExperts},
    {"kernels", "products.isa", R"("portable")"},
    {"kernels", "products.codes", R"("dot")"},
};

TEST(EngineKeys, an_old_key_means_what_the_new_one_does) {
  for (const Case& c : kCases) {
    Node old = json(c.beside), now = json(c.beside);
    old.set_path(c.old, json(c.value));
    now.set_path(c.now, json(c.value));
    const Experiment read_old = read(old), read_now = read(now);
    EXPECT_EQ(all_of(read_old), all_of(read_now)) << c.old;
    EXPECT_NE(all_of(read_old), all_of(read(c.beside))) << c.old << " changes nothing";
  }
}

TEST(EngineKeys, what_was_read_has_todays_keys_alone_and_reads_again) {
  for (const Case& c : kCases) {
    Node old = json(c.beside);
    old.set_path(c.old, json(c.value));
    const std::string once = all_of(read(old));
    EXPECT_EQ(all_of(read(once)), once) << c.old;
    const Node resolved = json(once);
    for (const char* map : {"clusters", "hybrid", "moe", "kernels", "units", "kv_format"}) EXPECT_EQ(resolved.find(map), nullptr) << map;
  }
}

TEST(EngineKeys, a_message_names_a_key_as_it_was_written) {
  const auto expect_says = [](const char* engine, const std::string& what) {
    const std::string error = error_of(engine);
    EXPECT_NE(error.find("e.json:1: " + what), std::string::npos) << error;
  };
  expect_says(R"({"kv_block_tokens": 0})", "engine.kv_block_tokens: \"0\"");
  expect_says(R"({"kv": {"block_tokens": 0}})", "engine.kv.block_tokens: \"0\"");
  expect_says(R"({"clusters": {"eviction": "random"}})", "engine.clusters.eviction: \"random\"");
  expect_says(R"({"weights": {"eviction": "random"}})", "engine.weights.eviction: \"random\"");
  expect_says(R"({"hybrid": {"unit": "npu", "splits": []}})", "engine.hybrid.splits: is empty");
  expect_says(R"({"units": ["cpu1", "cpu1"]})", "engine.units: \"cpu1\" is named twice");
  expect_says(R"({"units": ["cpu1"], "threads": 2})", "engine.threads: can not be combined with engine.units");
  expect_says(R"({"clusters": {"staging": 3}})", "engine.clusters.staging: ");
  expect_says(R"({"moe": {"group": 0}})", "engine.moe.group: ");
}

TEST(EngineKeys, an_unknown_key_is_named_as_it_was_written) {
  for (const auto& [engine, key] : {std::pair{R"({"clusters": {"evicton": "lru"}})", "engine.clusters.evicton"},
                                    {R"({"ffn": {"clusters": {"neurns": 3}}})", "engine.ffn.clusters.neurns"},
                                    {R"({"hybrid": {"unti": "npu"}})", "engine.hybrid.unti"},
                                    {R"({"moe": {"grup": 2}})", "engine.moe.grup"},
                                    {R"({"kv": {"blocks": 2}})", "engine.kv.blocks"},
                                    {R"({"kv_blocks": 2})", "engine.kv_blocks"}}) {
    const std::string error = error_of(engine);
    EXPECT_NE(error.find(std::string("e.json:1: ") + key + ": "), std::string::npos) << error;
  }
}

TEST(EngineKeys, both_spellings_at_once_are_refused_with_both_names) {
  for (const Case& c : kCases) {
    if (std::string_view(c.now).starts_with(c.old)) continue;  // a tree has one of the two
    for (const bool old_first : {true, false}) {
      Node engine = Node::map({});
      engine.set_path(old_first ? c.old : c.now, json(c.value));
      engine.set_path(old_first ? c.now : c.old, json(c.value));
      std::string error;
      try {
        canonical_engine(engine);
      } catch (const ConfigError& refused) {
        error = refused.what();
      }
      EXPECT_NE(error.find(std::string("engine.") + c.old), std::string::npos) << c.old << ": " << error;
      EXPECT_NE(error.find(std::string("engine.") + c.now), std::string::npos) << c.old << ": " << error;
      EXPECT_NE(error.find("one of the two"), std::string::npos) << c.old << ": " << error;
    }
  }
}

TEST(EngineKeys, both_spellings_of_maps_go_together_where_they_say_different_things) {
  const EngineConfig engine =
      read(R"({"policy": "neuron_cluster", "clusters": {"io_depth": 3, "eviction": "lru"}, "ffn": {"clusters": {"neurons": 5}},
               "weights": {"staging": "1 MiB"}})")
          .engine;
  EXPECT_EQ(engine.ffn.clusters.io_depth, 3u);
  EXPECT_EQ(engine.ffn.clusters.neurons, 5u);
  EXPECT_EQ(engine.weights.neurons.eviction, "lru");
  EXPECT_EQ(engine.weights.neurons.staging, MiB);
}

// On the command line the last one wins, whichever way it and the file spell the key.
TEST(EngineKeys, an_override_in_either_spelling_wins) {
  for (const Case& c : kCases) {
    if (std::string_view(c.old) == "kernels") continue;
    Node expected = json(c.beside);
    expected.set_path(c.now, json(c.value));
    const std::string all = all_of(read(expected));
    for (const char* file : {c.old, c.now}) {
      for (const char* over : {c.old, c.now}) {
        Node engine = json(c.beside);
        engine.set_path(file, json(R"("something else")"));
        engine = canonical_engine(engine);
        set_engine_key(engine, over, json(c.value, "--set"));
        EXPECT_EQ(all_of(read(engine)), all) << file << " in the file, --set engine." << over;
      }
    }
  }
}

TEST(EngineKeys, a_map_that_is_overridden_with_null_takes_all_of_it_back) {
  const struct {
    const char *map, *engine, *without;
  } cases[] = {
      {"hybrid", R"({"policy": "neuron_cluster", "threads": 2, "hybrid": {"unit": "npu", "splits": [{"batch": 1, "hot": "25%"}],
                     "prefill": false, "cluster": 64, "in_dram": "50%"}})",
       R"({"policy": "neuron_cluster", "threads": 2})"},
      {"clusters",
       R"({"policy": "neuron_cluster", "read_ahead": "64 KiB", "clusters": {"io_depth": 3, "eviction": "lru", "cache": false}})",
       R"({"policy": "neuron_cluster", "read_ahead": "64 KiB"})"},
      {"moe", R"({"policy": "npumoe", "threads": 2, "moe": {"group": 3, "units": ["ane0"], "attention": "cores"}})",
       R"({"policy": "npumoe", "threads": 2})"},
  };
  for (const auto& c : cases) {
    Node engine = canonical_engine(json(c.engine));
    EXPECT_NE(all_of(read(engine)), all_of(read(c.without)));
    set_engine_key(engine, c.map, Node::null({}));
    EXPECT_EQ(all_of(read(engine)), all_of(read(c.without))) << c.map;
  }
}

// An instruction set, the contract of a matrix unit, a way to multiply codes, or their bits.
TEST(EngineKeys, kernels_has_four_meanings) {
  EXPECT_EQ(read(R"({"kernels": "portable"})").engine.products.isa, "portable");
  const ProductsConfig matrix_unit = read(R"({"kernels": "hmx_q4"})").engine.products;
  EXPECT_EQ(matrix_unit.matmul, variant::kHmx);
  EXPECT_EQ(matrix_unit.isa, "auto");
  EXPECT_EQ(read(R"({"kernels": "dot", "activations": "int8"})").engine.products.codes, CodeMatmul::dot);
  EXPECT_EQ(read(R"({"kernels": "lut", "activations": "int8"})").engine.products.codes, CodeMatmul::look_up);
  for (std::uint32_t bits = 1; bits <= 4; ++bits) {
    const ProductsConfig look_ups = read(R"({"kernels": "lut_w)" + std::to_string(bits) + R"(", "activations": "int8"})").engine.products;
    EXPECT_EQ(look_ups.codes, CodeMatmul::look_up);
    EXPECT_EQ(look_ups.code_bits, bits);
    EXPECT_EQ(look_ups.isa, "auto");
  }
  EXPECT_EQ(read(R"({"kernels": "lut_w5"})").engine.products.isa, "lut_w5") << "the host will say that it has no such set";
}

TEST(EngineKeys, an_override_of_kernels_takes_back_what_kernels_meant) {
  const std::vector<std::string> all{"portable", "hmx_q4", "dot", "lut", "lut_w2"};
  for (const std::string& before : all) {
    for (const std::string& after : all) {
      if (before == "hmx_q4") continue;  // a contract stays, as engine.activations would
      const std::string numerics = after == "hmx_q4" ? "" : R"("activations": "int8", )";
      Node engine = canonical_engine(json("{" + numerics + R"("kernels": ")" + before + R"("})"));
      set_engine_key(engine, "kernels", json('"' + after + '"'));
      EXPECT_EQ(all_of(read(engine)), all_of(read("{" + numerics + R"("kernels": ")" + after + R"("})"))) << before << " to " << after;
    }
  }
}

TEST(EngineKeys, a_policy_is_where_sections_start_from) {
  std::set<std::string> names;
  for (const PolicyInfo& info : policies()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    const EngineConfig engine = read(R"({"policy": ")" + info.name + "\"}").engine;
    EXPECT_EQ(engine.policy, info.name);
  }
  const EngineConfig engine = read(R"({"policy": "llmflash", "weights": {"eviction": "lru"}, "ffn": {"clusters": {"neurons": 3}}})").engine;
  EXPECT_EQ(engine.weights.kind, "bundles");
  EXPECT_EQ(engine.weights.neurons.eviction, "lru") << "of the experiment";
  EXPECT_FALSE(engine.weights.neurons.two_phases) << "of the policy";
  EXPECT_EQ(engine.ffn.clusters.pipeline, "none");
  EXPECT_EQ(engine.ffn.clusters.neurons, 3u);
  EXPECT_EQ(all_of(read("{}")), all_of(read(R"({"policy": "dense"})")));
}

TEST(EngineKeys, an_unknown_policy_is_told_which_there_are) {
  const std::string error = error_of(R"({"policy": "densest"})");
  EXPECT_EQ(error.find("e.json:1: engine.policy: \"densest\" (expected one of: "), 0u) << error;
  for (const PolicyInfo& info : policies()) EXPECT_NE(error.find(info.name), std::string::npos) << info.name;
}

}  // namespace
}  // namespace vitro
