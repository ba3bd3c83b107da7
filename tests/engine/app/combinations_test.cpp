// Parts are chosen one by one: whatever is chosen, the text is that of cores that have all weights in DRAM.
#include <gmock/gmock.h>

#include "tests/effort.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

using test::Json;
using test::kDense;
using test::kMixture;
using testing::StartsWith;

// Of all combinations, each kEvery-th: six or seven placements follow one another, so every placement has its turn.
const std::uint64_t kEvery = test::all_or_few(1, 11);

// Two cores and an accelerator of static graphs.
MachineFactory accelerated(std::uint64_t seed) {
  return [seed](const MachineRequest& request, Function& function, TraceSink& trace) -> std::unique_ptr<MachineHost> {
    VirtualMachineSpec spec = test::random_times(request, seed);
    spec.units.resize(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      spec.units[i].id = UnitId(i);
      spec.units[i].name = i < 2 ? "cpu" + std::to_string(i) : "npu";
      spec.units[i].kind = i < 2 ? UnitKind::core : UnitKind::npu;
      spec.units[i].static_graphs = i == 2;
    }
    return std::make_unique<VirtualMachine>(std::move(spec), function, trace);
  };
}

struct Parts {
  const char *model, *weights, *ffn, *placement;
};

// Engines of these parts: an expert's rows that are too many for its graph go to cores, so that none is dropped.
Json engine_of(const Parts& parts) {
  Json engine = {{"weights", {{"kind", parts.weights}, {"read_ahead", "16 KiB"}, {"staging", "512 KiB"}}},
                 {"ffn", {{"kind", parts.ffn}}},
                 {"placement", {{"kind", parts.placement}, {"units", {"cpu0", "cpu1"}}}},
                 {"prefill_chunk", 4}};
  const std::string placement = parts.placement;
  if (placement == "shared") {
    engine["placement"]["kind"] = "cores";
    engine["placement"].update({{"unit", "npu"}, {"splits", {{{"batch", 1}, {"hot", "25%"}, {"attention", "50%"}, {"head", "50%"}}}}});
  }
  if (placement == "offloaded") engine["placement"].update({{"kind", "cores"}, {"units", {"cpu0", "npu"}}});
  if (placement == "several") engine["placement"].update({{"kind", "cores"}, {"units", {"cpu0", "npu", "cpu1"}}});
  if (placement == "unit") engine["placement"]["units"] = {"npu"};
  if (placement == "layers") engine["placement"]["units"] = {"cpu0", "cpu1", "npu"};
  if (std::string(parts.ffn) == "experts") {
    const std::vector<double> alike(8, 0.125);
    engine["ffn"]["experts"] = {{"overflow", "cpu"}, {"loads", std::vector<std::vector<double>>(3, alike)}};
  }
  return engine;
}

// Why such parts can not be put together; "" when they can.
std::string reason(const Parts& parts) {
  if (std::string(parts.ffn) == "experts" && parts.model == kDense) return "engine.ffn.kind: experts needs a model with experts";
  return "";
}

using Combinations = test::Sessions;

TEST_F(Combinations, of_weights_ffn_and_placement_have_the_tokens_of_the_dense_policy_or_say_what_does_not_fit) {
  std::uint64_t seed = 0;
  for (const char* model : {kDense, kMixture}) {
    const Json expected = run(experiment(model, "{}"), accelerated(1))["tokens"];
    ASSERT_EQ(expected.size(), 12u);
    for (const char* weights : {"dram", "paged", "streamed", "bundles"}) {
      for (const char* ffn : {"dense", "clusters", "experts"}) {
        for (const char* placement : {"cores", "shared", "offloaded", "several", "unit", "layers", "chunk_attention"}) {
          if (++seed % kEvery != 0) continue;
          const Parts parts{model, weights, ffn, placement};
          const Node root = experiment(model, engine_of(parts).dump());
          SCOPED_TRACE(engine_of(parts).dump());
          std::string error;
          try {
            EXPECT_EQ(run(root, accelerated(seed))["tokens"], expected);
          } catch (const ConfigError& refused) {
            error = refused.what();
          }
          const std::string why = reason(parts);
          EXPECT_EQ(error.empty(), why.empty()) << error;
          EXPECT_THAT(error, StartsWith(why));
        }
      }
    }
  }
}

// The same with room for half of the FFN, where something comes and goes.
TEST_F(Combinations, with_half_of_the_ffn_in_dram_have_the_same_tokens) {
  std::uint64_t seed = 100;
  for (const char* model : {kDense, kMixture}) {
    const Json expected = run(experiment(model, "{}"), accelerated(1))["tokens"];
    for (const auto& [weights, ffn] : {std::pair{"paged", "dense"},
                                       {"streamed", "dense"},
                                       {"bundles", "clusters"},
                                       {"bundles", "dense"},
                                       {"paged", "clusters"},
                                       {"streamed", "clusters"},
                                       {"paged", "experts"},
                                       {"streamed", "experts"},
                                       {"bundles", "experts"}}) {
      for (const char* placement : {"cores", "shared", "offloaded", "several", "unit", "layers", "chunk_attention"}) {
        if (++seed % kEvery != 0 || !reason({model, weights, ffn, placement}).empty()) continue;
        const Json engine = engine_of({model, weights, ffn, placement});
        const Json result = run(experiment(model, engine.dump(), R"({"memory.ffn_in_dram": "50%"})"), accelerated(seed));
        EXPECT_EQ(result["tokens"], expected) << model << " " << engine.dump();
      }
    }
  }
}

// Hot neurons whose matrices lie apart, and where nothing gives way to them.
TEST_F(Combinations, of_hot_neurons_and_how_they_are_kept_have_the_same_tokens) {
  std::uint64_t seed = 300;
  const Json expected = run(experiment(kDense, "{}"), accelerated(1))["tokens"];
  for (const Json& weights : {Json{{"bundle", false}}, Json{{"bundle", false}, {"two_phases", true}}, Json{{"eviction", "none"}},
                              Json{{"eviction", "none"}, {"bundle", false}}, Json{{"kind", "streamed"}}, Json{{"kind", "dram"}}}) {
    Json engine = engine_of({kDense, "bundles", "clusters", "shared"});
    engine["weights"].update(weights);
    engine["ffn"]["clusters"] = {{"hot_cluster", 32}};
    engine["placement"]["splits"] = {{{"batch", 1}, {"hot", "50%"}}};
    const Json over = weights.contains("kind") && weights["kind"] == "dram" ? Json::object() : Json{{"memory.ffn_in_dram", "50%"}};
    EXPECT_EQ(run(experiment(kDense, engine.dump(), over.dump()), accelerated(++seed))["tokens"], expected) << engine.dump();
  }
}

// An int8 copy of weights in int8 is the same numbers: the text does not tell who multiplied.
TEST_F(Combinations, of_a_copy_for_prompts_and_how_weights_are_kept_have_the_same_tokens) {
  constexpr const char* kInt8 = "stories-reglu-3m.q8_0.gguf";
  std::uint64_t seed = 400;
  const Json numerics = {{"numerics", "int8"}};
  const Json expected = run(experiment(kInt8, Json{{"products", numerics}, {"prefill_chunk", 4}}.dump()), accelerated(1))["tokens"];
  for (const char* weights : {"dram", "paged", "streamed"}) {
    Json engine = engine_of({kInt8, weights, "dense", "prompts"});
    engine["placement"]["units"] = {"cpu0", "cpu1", "npu"};
    engine["products"] = numerics;
    EXPECT_EQ(run(experiment(kInt8, engine.dump()), accelerated(++seed))["tokens"], expected) << weights;
    if (std::string_view(weights) == "dram") continue;
    const Json tight = {{"memory.budget", "6 MiB"}};  // a cache of weights leaves room for the copy, which comes later
    EXPECT_EQ(run(experiment(kInt8, engine.dump(), tight.dump()), accelerated(++seed))["tokens"], expected) << weights;
  }
}

// Activations in float16 are another numeric contract, the same for everybody.
TEST_F(Combinations, of_activations_in_float16_and_other_parts_have_the_tokens_of_cores) {
  std::uint64_t seed = 500;
  const Json graph = {{"activations", "f16"}};
  for (const char* model : {kDense, kMixture}) {
    const Json expected = run(experiment(model, Json{{"graph", graph}, {"prefill_chunk", 4}}.dump()), accelerated(1))["tokens"];
    ASSERT_EQ(expected.size(), 12u);
    for (const char* weights : {"dram", "paged", "streamed", "bundles"}) {
      for (const char* ffn : {"dense", "clusters", "experts"}) {
        for (const char* placement : {"cores", "shared", "offloaded", "unit", "layers", "chunk_attention"}) {
          if (++seed % kEvery != 0 || !reason({model, weights, ffn, placement}).empty()) continue;
          Json engine = engine_of({model, weights, ffn, placement});
          engine["graph"] = graph;
          EXPECT_EQ(run(experiment(model, engine.dump()), accelerated(seed))["tokens"], expected) << model << " " << engine.dump();
        }
      }
    }
  }
}

// Keys and values, or their format, beside each placement.
TEST_F(Combinations, of_keys_and_values_and_placement_have_the_tokens_of_cores) {
  std::uint64_t seed = 200;
  for (const Json& kv : {Json{{"dram_tokens", 4}, {"block_tokens", 4}}, Json{{"format", "int8_fp8"}, {"per", "query_head"}},
                         Json{{"format", "int4_e5m2"}}}) {
    Json engine = {{"kv", kv}, {"prefill_chunk", 4}};
    const Json expected = run(experiment(kDense, engine.dump()), accelerated(1))["tokens"];
    for (const char* placement : {"cores", "shared", "offloaded", "unit", "layers", "chunk_attention"}) {
      if (++seed % test::all_or_few<std::uint64_t>(1, 5) != 0) continue;
      engine = engine_of({kDense, "dram", "dense", placement});
      engine["kv"] = kv;
      EXPECT_EQ(run(experiment(kDense, engine.dump()), accelerated(seed))["tokens"], expected) << engine.dump();
    }
  }
}

// A policy is where the sections start from: each key of it may be another one.
TEST_F(Combinations, a_policy_with_other_parts_has_the_same_tokens) {
  const Json expected = run(experiment(kDense, "{}"), accelerated(1))["tokens"];
  for (const char* engine : {R"({"policy": "llmflash", "clusters": {"two_phases": true}, "layout": "bundles_two_phase"})",
                             R"({"policy": "neuron_cluster", "clusters": {"two_phases": false}})",
                             R"({"policy": "powerinfer", "clusters": {"eviction": "lru", "bundle": true}})",
                             R"({"policy": "qnn", "weights": {"kind": "paged"}})",
                             R"({"policy": "mmap", "placement": {"kind": "layers", "units": ["cpu0", "npu"]}})"}) {
    EXPECT_EQ(run(experiment(kDense, engine, R"({"memory.ffn_in_dram": "50%"})"), accelerated(7))["tokens"], expected) << engine;
  }
}

}  // namespace
}  // namespace vitro
