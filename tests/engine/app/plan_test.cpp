#include "engine/app/plan.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/app/experiment.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel =
    "format: q4_0\nshape: {family: llama, name: tiny, layers: 2, width: 256, heads: 4, kv_heads: 4, ffn: 512, "
    "vocab: 320, context: 128, norm_eps: 1e-5, activation: relu, rope_base: 10000}\n";

class PlanTest : public testing::Test {
 protected:
  PlanTest() : root_(fs::temp_directory_path() / ("vitro_plan_" + std::to_string(::getpid()))) {
    fs::create_directories(root_ / "plans");
    write("device.yaml", "name: phone\ndram: {bandwidth: 50 GB/s}\n");
    write("model.yaml", kModel);
    experiment("memory: {ffn_in_dram: 50%}");
    plan(1, device_fingerprint(load_yaml(path("device.yaml"))), model_fingerprint(load_yaml(path("model.yaml"))));
  }
  ~PlanTest() override { fs::remove_all(root_); }
  std::string path(const std::string& name) const { return (root_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root_ / name) << text; }
  void experiment(const std::string& memory, const std::string& engine = "") const {
    write("e.yaml", "experiment: e\nmachine: sim\ndevice: device.yaml\nmodel: model.yaml\nengine: {plan: plans/p.yaml, function: draw" +
                        engine + "}\nworkload: {prompt_tokens: 4}\n" + memory + "\n");
  }
  void plan(int version, const std::string& device, const std::string& model) const {
    write("plans/p.yaml", "vitro_plan: " + std::to_string(version) + "\ndevice: {name: phone, fingerprint: \"" + device +
                              "\"}\nmodel: {name: tiny, fingerprint: \"" + model +
                              "\"}\nmemory: {fixed: 1 MiB, hot: 200 KiB, ffn: 800 KiB, why: x}\n"
                              "engine:\n  policy: neuron_cluster\n  units: {value: [cpu1, cpu2], why: faster}\n"
                              "  clusters: {io_core: cpu0, io_depth: {value: 32, why: full}}\n"
                              "  hybrid:\n    unit: npu\n    splits:\n    - {batch: 1, hot: {value: 25%, why: meets}}\n");
  }
  // A plan with graphs, of a model with so many neurons and heads.
  void graphs(const std::string& listed) const {
    const std::string file = path("plans/p.yaml");
    plan(1, device_fingerprint(load_yaml(path("device.yaml"))), model_fingerprint(load_yaml(path("model.yaml"))));
    std::ifstream in(file);
    std::string text(std::istreambuf_iterator<char>(in), {});
    text.replace(text.find("{name: tiny"), 11, "{name: tiny, ffn: 512, kv_heads: 4");
    text.replace(text.find("hot: {value: 25%, why: meets}"), 29, "hot: {value: 25%, why: meets}, attention: 50%");
    write("plans/p.yaml", text + "  ffn: {clusters: {hot_cluster: 64}}\ngraphs: [" + listed + "]\n");
  }
  // A plan made in these, of cores and of the accelerator.
  void contracts(const std::string& cores, const std::string& accelerator) const {
    std::ifstream in(path("plans/p.yaml"));
    std::string text(std::istreambuf_iterator<char>(in), {});
    text.replace(text.find("    unit: npu\n"), 14, "    unit: npu\n    " + accelerator + "\n");
    text.replace(text.find("  policy: neuron_cluster\n"), 25, "  policy: neuron_cluster\n  " + cores + "\n");
    write("plans/p.yaml", text);
  }
  Experiment read(const std::vector<std::string>& overrides = {}) const {
    return read_experiment(load_experiment(path("e.yaml"), overrides, ""));
  }
  std::string error(const std::vector<std::string>& overrides = {}) const {
    try {
      read(overrides);
    } catch (const ConfigError& refused) {
      return refused.what();
    }
    return "";
  }
  fs::path root_;
};

TEST_F(PlanTest, how_a_device_is_simulated_makes_it_another_one_only_if_results_differ) {
  const auto of = [](const std::string& cpu) { return device_fingerprint(parse_yaml("{name: phone, cpu: {" + cpu + "}, ufs: {}}", "d")); };
  EXPECT_EQ(of("bandwidth: 9 GB/s, phases: each"), of("bandwidth: 9 GB/s"));
  EXPECT_NE(of("bandwidth: 9 GB/s, calls: each"), of("bandwidth: 9 GB/s"));
}

TEST_F(PlanTest, a_run_takes_what_the_plan_chose) {
  const Experiment e = read();
  EXPECT_EQ(e.engine.policy, "neuron_cluster");
  EXPECT_EQ(e.engine.placement.units, (std::vector<std::string>{"cpu1", "cpu2"}));
  EXPECT_EQ(e.engine.ffn.clusters.io_depth, 32u);
  ASSERT_EQ(e.engine.placement.splits.size(), 1u);
  EXPECT_DOUBLE_EQ(e.engine.placement.splits[0].hot, 0.25);
}

TEST_F(PlanTest, keys_of_the_experiment_override_the_plan) {
  const Experiment e = read({"engine.clusters.io_depth=4", "engine.units=[cpu3]"});
  EXPECT_EQ(e.engine.ffn.clusters.io_depth, 4u);
  EXPECT_EQ(e.engine.ffn.clusters.io_core, "cpu0");
  EXPECT_EQ(e.engine.placement.units, std::vector<std::string>{"cpu3"});
  experiment("memory: {ffn_in_dram: 50%}", ", threads: 3");
  EXPECT_TRUE(read().engine.placement.units.empty());
  EXPECT_EQ(read().engine.placement.threads, 3u);
}

TEST_F(PlanTest, splits_beside_those_of_the_plan_are_refused_where_they_stand) {
  experiment("memory: {ffn_in_dram: 50%}", ", hybrid: {unit: npu, splits: [{batch: 1, hot: 50%}]}");
  const std::string found = error();
  EXPECT_NE(found.find("e.yaml:5: engine.hybrid.splits: can not be combined with engine.plan"), std::string::npos) << found;
  experiment("memory: {ffn_in_dram: 50%}", ", hybrid: {cluster: 128}");
  EXPECT_DOUBLE_EQ(read().engine.placement.splits[0].hot, 0.25) << "other keys are none of its business";
}

// Shares are balanced by times in one contract; in another one the sides would not meet.
TEST_F(PlanTest, a_plan_of_other_contracts_is_refused_where_they_stand) {
  experiment("memory: {ffn_in_dram: 50%}", ", placement: {activations: fp16}");
  const std::string other = error();
  EXPECT_NE(other.find("e.yaml:5: engine.placement.activations: fp16 is another contract than that of engine.plan"), std::string::npos)
      << other;
  EXPECT_NE(other.find("balanced in that of the cores (expected engine.placement.activations: same, or a plan made with --set "
                       "engine.placement.activations=fp16)"),
            std::string::npos) << other;
  experiment("memory: {ffn_in_dram: 50%}", ", placement: {activations: same}");
  EXPECT_EQ(error(), "");
  contracts("activations: {value: int8, why: x}", "activations: {value: fp16, why: x}");
  EXPECT_NE(error().find("balanced in fp16 (expected engine.placement.activations: fp16, "), std::string::npos) << error();
  experiment("memory: {ffn_in_dram: 50%}");
  EXPECT_EQ(read().engine.placement.activations, variant::kHmx);
  EXPECT_EQ(read().engine.products.matmul, variant::kInt8);
  experiment("memory: {ffn_in_dram: 50%}", ", placement: {activations: fp16}");
  EXPECT_EQ(error(), "");
  const std::string cores = error({"engine.activations=float"});
  EXPECT_NE(cores.find("engine.activations: float is another contract"), std::string::npos) << cores;
  EXPECT_EQ(error({"engine.activations=int8"}), "");
  const std::string unit = error({"engine.kernels=hmx_q4"});
  EXPECT_NE(unit.find("engine.kernels: fp16 is another contract"), std::string::npos) << unit;
  EXPECT_NE(unit.find("(expected engine.products.numerics: int8, or a plan made with --set engine.products.numerics=fp16)"),
            std::string::npos) << unit;
}

TEST_F(PlanTest, what_is_no_contract_is_left_to_the_reader_of_its_key) {
  contracts("activations: {value: int8, why: x}", "activations: {value: fp16, why: x}");
  for (const char* wrong : {"engine.activations=int9", "engine.activations=[int8]", "engine.placement.activations=float",
                            "engine.placement.activations=[fp16]"}) {
    const std::string said = error({wrong});
    EXPECT_NE(said.find("activations"), std::string::npos) << wrong << ": " << said;
    EXPECT_EQ(said.find("another contract"), std::string::npos) << said;
    EXPECT_NE(said.find("int8_tables"), std::string::npos) << wrong << ": " << said;
  }
  for (const char* absent : {"engine.activations=null", "engine.placement.activations=null"}) EXPECT_EQ(error({absent}), "") << absent;
  for (const std::string planned : {"null", "[int8]"}) {
    plan(1, device_fingerprint(load_yaml(path("device.yaml"))), model_fingerprint(load_yaml(path("model.yaml"))));
    contracts("activations: " + planned, "activations: " + planned);
    const std::string said = error({"engine.activations=int8", "engine.placement.activations=int8"});
    EXPECT_EQ(said, "") << planned << ": the experiment's own";
  }
  EXPECT_NE(error().find("is a list (expected one of: "), std::string::npos) << error();
}

// What is computed counts, not how the keys put it.
TEST_F(PlanTest, another_name_for_the_contract_that_the_weights_have_is_the_plans) {
  contracts("activations: int8", "activations: same");
  EXPECT_EQ(error({"engine.placement.activations=int8"}), "");
  const std::string other = error({"engine.placement.activations=fp16"});
  EXPECT_NE(other.find("balanced in that of the cores (int8)"), std::string::npos) << other;
  std::string f16 = kModel;
  write("model.yaml", f16.replace(f16.find("q4_0"), 4, "f16"));
  plan(1, device_fingerprint(load_yaml(path("device.yaml"))), model_fingerprint(load_yaml(path("model.yaml"))));
  contracts("activations: float", "activations: same");
  EXPECT_EQ(error({"engine.activations=int8"}), "") << "which float16 weights lack";
  EXPECT_EQ(error({"engine.activations=int8", "engine.placement.activations=int8_tables"}), "");
  EXPECT_NE(error({"engine.activations=fp16"}).find("fp16 is another contract"), std::string::npos) << error({"engine.activations=fp16"});
  EXPECT_NE(error({"engine.activations=half_sums"}).find("half_sums is another contract"), std::string::npos);
  EXPECT_NE(error({"engine.activations=int8", "engine.placement.activations=fp16"}).find("fp16 is another contract"), std::string::npos);
}

TEST_F(PlanTest, what_was_composed_composes_again) {
  const Node once = load_experiment(path("e.yaml"), {}, "");
  const Node twice = compose_experiment(parse_json(once.to_json(), "resolved.json"), "/", {}, "");
  EXPECT_EQ(twice.to_json(), once.to_json());
}

TEST_F(PlanTest, what_was_resolved_resolves_to_itself) {
  const Node once = read_experiment(load_experiment(path("e.yaml"), {}, "")).resolved;
  const Node twice = compose_experiment(parse_json(once.to_json(), "resolved.json"), "/", {}, "");
  EXPECT_EQ(read_experiment(twice).resolved.to_json(), once.to_json());
}

TEST_F(PlanTest, a_plan_for_another_device_is_refused_at_its_line) {
  const std::string found = error({"device.dram.bandwidth=60 GB/s"});
  EXPECT_NE(found.find("plans/p.yaml:2: device.fingerprint: "), std::string::npos) << found;
  EXPECT_NE(found.find("this experiment's device is phone"), std::string::npos) << found;
}

TEST_F(PlanTest, a_plan_for_another_model_is_refused_at_its_line) {
  const std::string found = error({"model.shape.ffn=768"});
  EXPECT_NE(found.find("plans/p.yaml:3: model.fingerprint: "), std::string::npos) << found;
}

TEST_F(PlanTest, a_plan_of_another_version_is_refused) {
  plan(2, "x", "y");
  const std::string found = error();
  EXPECT_NE(found.find("plans/p.yaml:1: vitro_plan: plan version 2 can not be read (expected 1"), std::string::npos) << found;
}

TEST_F(PlanTest, memory_below_the_fixed_part_is_refused) {
  EXPECT_EQ(error({"memory.ffn_in_dram=25%"}), "");  // exactly the hot clusters
  const std::string share = error({"memory.ffn_in_dram=20%"});
  EXPECT_NE(share.find("plans/p.yaml:4: memory.hot: "), std::string::npos) << share;
  EXPECT_EQ(error({"memory.budget=1300 KiB"}), "");
  const std::string budget = error({"memory.budget=1100 KiB"});
  EXPECT_NE(budget.find("plans/p.yaml:4: memory.fixed: "), std::string::npos) << budget;
}

TEST_F(PlanTest, its_graphs_are_loaded_as_it_says) {
  graphs("{batch: 1, unit: npu, name: one, hot_neurons: 128, heads: 2, loaded: from_start, grows: \"from the start\"}, "
         "{batch: 3, unit: npu, name: three, hot_neurons: 128, heads: 2, grows: later}");
  const Experiment e = read();
  const GraphLoadConfig& loads = e.engine.placement.graphs;
  EXPECT_EQ(loads.loading, GraphLoading::listed);
  ASSERT_EQ(loads.listed.size(), 2u);
  EXPECT_TRUE(loads.listed[0].from_start);
  EXPECT_EQ(loads.listed[1].batch, 3u);
  EXPECT_EQ(loads.listed[1].name, "three");
  EXPECT_FALSE(loads.listed[1].from_start);
  EXPECT_EQ(read({"engine.placement.graphs=needed"}).engine.placement.graphs.loading, GraphLoading::needed);
  const Node twice = compose_experiment(parse_json(e.resolved.to_json(), "resolved.json"), "/", {}, "");
  EXPECT_EQ(read_experiment(twice).resolved.to_json(), e.resolved.to_json());
}

TEST_F(PlanTest, graphs_that_do_not_fit_are_refused_where_they_stand) {
  const auto refused = [&](const std::string& graph, const std::vector<std::string>& overrides = {}) {
    graphs(graph);
    return error(overrides);
  };
  EXPECT_NE(refused("{batch: 1, unit: gpu, hot_neurons: 128, heads: 2}").find("graphs.unit: \"gpu\" would load this graph"),
            std::string::npos) << error();
  EXPECT_NE(refused("{batch: 1, unit: npu, hot_neurons: 128, heads: 2}", {"engine.hybrid.unit=gpu"}).find("engine.placement.unit is gpu"),
            std::string::npos);
  EXPECT_NE(refused("{batch: 1, unit: npu, hot_neurons: 320, heads: 2}").find("plans/p.yaml:"), std::string::npos);
  EXPECT_NE(error().find("hot_neurons: 320 are not what the split of batch 1 gives: 25.0000% of 512"), std::string::npos) << error();
  EXPECT_NE(refused("{batch: 1, unit: npu, hot_neurons: 128, heads: 4}").find("heads: 4 are not what the split of batch 1 gives"),
            std::string::npos) << error();
  EXPECT_NE(refused("{batch: 0, unit: npu, hot_neurons: 128, heads: 2}").find("batch"), std::string::npos);
  EXPECT_NE(refused("{batch: 1, unit: npu, hot_neurons: 128, heads: 2, colour: 1}").find("colour"), std::string::npos);
  // Splits that are none, and a share by layer of no layer: refused by their own readers.
  const std::string fits = "{batch: 1, unit: npu, hot_neurons: 128, heads: 2}";
  for (const char* splits : {"[]", "[{batch: 1, hot_by_layer: [], attention: 50%}]", "3"}) {
    const std::string said = refused(fits, {std::string("engine.hybrid.splits=") + splits});
    EXPECT_NE(said.find("splits"), std::string::npos) << splits << ": " << said;
  }
}

TEST_F(PlanTest, what_is_no_plan_is_named_where_it_is_asked_for) {
  EXPECT_NE(error({"engine.plan=nowhere.yaml"}).find("--set engine.plan:1: engine.plan: "), std::string::npos);
  const std::string found = error({"engine.plan=" + path("device.yaml")});
  EXPECT_NE(found.find("is not a plan (expected a file that `vitro plan` wrote)"), std::string::npos) << found;
}

}  // namespace
}  // namespace vitro
