// Parts that a plug-in brings run like the engine's own.
#include <gtest/gtest.h>

#include "engine/app/old_engine_keys.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

using test::Json;

class PartsPlugin : public test::Sessions {
 protected:
  static MachineFactory machines() {
    return [](const MachineRequest& request, Function& function, TraceSink& trace) -> std::unique_ptr<MachineHost> {
      return std::make_unique<VirtualMachine>(test::random_times(request, 7), function, trace);
    };
  }
  Json tokens(Json engine, const std::string& extra = "{}") const {
    return run(experiment("stories-reglu-3m.f16.gguf", engine.dump(), extra), machines())["tokens"];
  }
  static Json with_plugin(Json engine) {
    engine["plugins"] = {VITRO_PARTS_PLUGIN};
    return engine;
  }
};

TEST_F(PartsPlugin, a_placement_from_outside_the_tree_gives_the_tokens_of_an_even_one) {
  const Json placed = with_plugin({{"placement", {{"kind", "first_core_more"}, {"threads", 3}, {"options", {{"share", "75%"}}}}}});
  EXPECT_EQ(tokens(placed), tokens({{"policy", "dense"}}));
}

TEST_F(PartsPlugin, an_eviction_from_outside_the_tree_decides_what_stays) {
  const auto result = [&](const char* eviction) {
    const Json engine = with_plugin({{"policy", "neuron_cluster"}, {"weights", {{"eviction", eviction}}}});
    return run(experiment("stories-reglu-3m.f16.gguf", engine.dump(), R"({"memory.ffn_in_dram": "25%"})"), machines());
  };
  const Json own = result("newest_first"), lru = result("lru");
  EXPECT_EQ(own["tokens"], lru["tokens"]);
  EXPECT_NE(own["metrics"]["cache_hit_rate"], lru["metrics"]["cache_hit_rate"]);
}

TEST_F(PartsPlugin, a_rule_from_outside_the_tree_keeps_other_keys_and_values_and_no_token_changes) {
  const auto result = [&](const char* rule) {
    const Json kv = {{"keep", rule}, {"dram_tokens", 16}, {"block_tokens", 8}};
    return run(experiment("stories-reglu-3m.f16.gguf", with_plugin({{"kv", kv}}).dump(), R"({"workload.output_tokens": 60})"), machines());
  };
  const Json own = result("every_other"), first = result("first");
  EXPECT_EQ(own["tokens"], first["tokens"]);
  EXPECT_GT(own["metrics"]["kv_flash"]["bytes_written"], 0);
  EXPECT_NE(own["metrics"]["kv_flash"]["bytes_read"], first["metrics"]["kv_flash"]["bytes_read"]);
}

TEST_F(PartsPlugin, a_rule_from_outside_the_tree_reads_other_experts_ahead_and_no_token_changes) {
  const auto result = [&](const char* rule) {
    const Json weights = {{"kind", "experts"}, {"eviction", "lru"}, {"experts", {{"budget", "2 MB"}, {"ahead", rule}}}};
    return run(experiment("stories-moe-6m.f16.gguf", with_plugin({{"weights", weights}}).dump()), machines());
  };
  const Json own = result("first_experts"), router = result("router");
  EXPECT_EQ(own["tokens"], router["tokens"]);
  EXPECT_GT(own["metrics"]["expert_cache"]["read_ahead"], 0);
  EXPECT_NE(own["metrics"]["expert_cache"], router["metrics"]["expert_cache"]);
}

TEST_F(PartsPlugin, a_rule_from_outside_the_tree_places_experts_and_no_token_changes) {
  const auto result = [&](const char* rule) {
    const Json experts = {{"place", rule}, {"overflow", "cpu"}, {"graph_rows", 1},
                          {"loads", std::vector<std::vector<double>>(3, std::vector<double>(8, 0.125))}};
    const Json engine = with_plugin({{"ffn", {{"kind", "experts"}, {"experts", experts}}}, {"placement", {{"graph_units", {"cpu1"}}}}});
    return run(experiment("stories-moe-6m.f16.gguf", engine.dump()), machines());
  };
  const Json own = result("neighbours"), cores = result("cores");
  EXPECT_EQ(own["tokens"], run(experiment("stories-moe-6m.f16.gguf", R"({"policy": "dense"})"), machines())["tokens"]);
  EXPECT_EQ(own["tokens"], cores["tokens"]);
  EXPECT_EQ(own["metrics"]["experts"]["graphs"], 3 * 3) << "three of each layer";
  EXPECT_EQ(cores["metrics"]["experts"]["graphs"], 0);
}

TEST_F(PartsPlugin, what_is_no_plug_in_is_refused_by_name) {
  const auto error_of = [&](const std::string& path) -> std::string {
    try {
      tokens({{"plugins", {path}}});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of("nowhere.so").find("engine.plugins: "), std::string::npos) << error_of("nowhere.so");
  EXPECT_NE(error_of("nowhere.so").find("is not a file"), std::string::npos);
  const std::string model = test::kModels + "stories-reglu-3m.f16.gguf";
  EXPECT_NE(error_of(model).find("does not load"), std::string::npos) << error_of(model);
}

}  // namespace
}  // namespace vitro
