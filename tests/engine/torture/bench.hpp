// Configurations by hand, for faults one by one, and their undisturbed runs.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/torture/torture.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro::test {

using Json = nlohmann::ordered_json;

struct Named {
  const char* name;
  bool mixture;
  Json engine, memory;
  Format format = Format::f16;
};

// One for each part that reads while it decodes, or holds something that a step takes and has to give back.
inline std::vector<Named> configurations() {
  const Json half = {{"ffn_in_dram", "50%"}};
  const std::vector<std::vector<double>> loads(2, std::vector<double>(8, 0.125));
  const auto by_time = [](Json engine) {
    engine["ffn"]["experts"].update({{"cold", "by_time"}, {"max_drop", "100%"}});
    return engine;
  };
  // Blocks of q8_0 have padding, so that what is read lands beside its place.
  const Json clusters = {{"pipeline", "cluster"}, {"neurons", 512}, {"dense_rows", 2}, {"hot_cluster", 64}};
  const Json landing = {{"ffn", {{"kind", "dense"}, {"clusters", clusters}}},
                        {"weights", {{"kind", "bundles"}, {"two_phases", true}, {"staging", "64 KiB"}}},
                        {"placement", {{"units", {"cpu0"}}, {"unit", "npu"}, {"splits", {{{"batch", 3}, {"hot", "100%"}}}}}}};
  const Json none = {{"pipeline", "none"}, {"hot_cluster", 64}};
  const Json whole_waves = {{"ffn", {{"kind", "clusters"}, {"clusters", none}}},
                            {"weights", {{"kind", "bundles"}, {"staging", "64 KiB"}}},
                            {"placement", {{"units", {"cpu0"}}, {"kind", "layers"}, {"unit", "npu"}}}};
  const auto experts = [&](const char* weights) {
    return Json{{"weights", {{"kind", weights}}},
                {"ffn",
                 {{"kind", "experts"},
                  {"experts", {{"loads", loads}, {"overflow", "cpu"}, {"graph_rows", 4}, {"resident", "500 KiB"}}}}},
                {"placement", {{"units", {"cpu0", "cpu1"}}, {"graph_units", {"npu"}}}},
                {"prefill_chunk", 4}};
  };
  return {{"dram", false, {{"placement", {{"units", {"cpu0", "cpu1"}}}}}, Json::object()},
          {"paged", false, {{"weights", {{"kind", "paged"}, {"read_ahead", "8 KiB"}}}, {"placement", {{"units", {"cpu0", "cpu1"}}}}}, half},
          {"streamed", false, {{"weights", {{"kind", "streamed"}}}, {"placement", {{"units", {"cpu0", "cpu1"}}}}}, half},
          {"bundles", false, {{"policy", "neuron_cluster"}, {"placement", {{"units", {"cpu0", "cpu1"}}}}, {"prefill_chunk", 4}}, half},
          {"hot", false,
           {{"policy", "neuron_cluster"}, {"ffn", {{"clusters", {{"hot_cluster", 32}}}}},
            {"placement",
             {{"units", {"cpu0"}},
              {"unit", "npu"},
              {"splits", {{{"batch", 1}, {"hot", "50%"}, {"attention", "50%"}, {"head", "0%"}}}}}}},
           half},
          {"layers", false, {{"policy", "npu_dense"}, {"placement", {{"units", {"cpu0"}}, {"unit", "npu"}}}}, Json::object()},
          {"keys and values in flash", false, {{"kv", {{"dram_tokens", 0}, {"block_tokens", 2}}}, {"prefill_chunk", 4}}, Json::object()},
          {"paged mixture", true, {{"weights", {{"kind", "paged"}}}, {"placement", {{"units", {"cpu0", "cpu1"}}}}}, half},
          {"bundled mixture", true, {{"policy", "neuron_cluster"}, {"placement", {{"units", {"cpu0", "cpu1"}}}}}, half},
          {"experts", true, experts("dram"), Json::object()},
          {"paged experts", true, experts("paged"), half},
          {"streamed experts", true, experts("streamed"), half},
          {"cached experts in tiers", true, experts("experts"), half},
          {"cached experts", true,
           {{"weights", {{"kind", "experts"}, {"eviction", "router"}}}, {"placement", {{"units", {"cpu0", "cpu1"}}}}, {"prefill_chunk", 2}},
           half},
          {"bundles in groups", false,
           {{"policy", "neuron_cluster"},
            {"ffn", {{"clusters", {{"io_depth", 32}, {"io_together", 4}}}}},
            {"placement", {{"units", {"cpu0", "cpu1"}}}}},
           half},
          {"experts by time", true, by_time(experts("dram")), Json::object()},
          {"hot and whole waves", true, whole_waves, {{"budget", "4 MiB"}}, Format::q8_0},
          {"hot and landing", false, landing, {{"ffn_in_dram", "0%"}}, Format::q8_0}};
}

inline TortureCase case_of(const Named& configuration) {
  const Json experiment = {{"experiment", "torture"},
                           {"machine", "host"},
                           {"engine", configuration.engine},
                           {"memory", configuration.memory},
                           {"workload", {{"prompt", "a b c d e f g h"}, {"output_tokens", 4}, {"batch", 2}, {"stop_at_eos", false}}}};
  TortureCase test;
  test.experiment = parse_json(experiment.dump(), configuration.name);
  test.model = RandomModel{configuration.mixture, 3, 2, configuration.format};
  test.timing = 5;
  return test;
}

inline TortureOptions options_in(const ScratchFolder& folder) {
  TortureOptions options;
  options.folder = folder.str();
  return options;
}

}  // namespace vitro::test
