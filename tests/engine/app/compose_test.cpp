#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/app/experiment.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;

class ComposeTest : public testing::Test {
 protected:
  ComposeTest() : root_(fs::temp_directory_path() / ("vitro_compose_" + std::to_string(::getpid()))) {
    fs::create_directories(root_ / "configs");
    write("configs/engine.yaml", "policy: mmap\nread_ahead: 64 KiB\n");
    write("configs/model.yaml", "gguf: weights.gguf\n");
    write("e.yaml",
          "experiment: e\nmachine: host\nmodel: configs/model.yaml\nengine: configs/engine.yaml\nworkload: {prompt: hi}\n"
          "memory: {budget: 1 GiB}\n");
  }
  ~ComposeTest() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root_ / name) << text; }
  Node load(const std::vector<std::string>& overrides = {}, const std::string& machine = "") const {
    return load_experiment((root_ / "e.yaml").string(), overrides, machine);
  }
  std::string error_of(const std::vector<std::string>& overrides) const {
    try {
      read_experiment(load(overrides));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  fs::path root_;
};

TEST_F(ComposeTest, paths_start_at_the_file_that_names_them) {
  const Experiment e = read_experiment(load());
  EXPECT_EQ(e.model.gguf, (root_ / "configs" / "weights.gguf").string());
  EXPECT_EQ(e.engine.policy, "mmap");
  EXPECT_EQ(e.engine.weights.read_ahead, 64 * KiB);
}

TEST_F(ComposeTest, paths_in_an_included_file_start_there) {
  fs::create_directories(root_ / "base" / "engines");
  write("base/engines/mapped.yaml", "policy: mmap\n");
  write("base/common.yaml", "engine: engines/mapped.yaml\nmodel: {gguf: weights.gguf}\nmachine: host\nworkload: {prompt: hi}\n");
  write("e.yaml", "include: base/common.yaml\nexperiment: e\n");
  const Experiment e = read_experiment(load());
  EXPECT_EQ(e.engine.policy, "mmap");
  EXPECT_EQ(e.model.gguf, (root_ / "base" / "weights.gguf").string());
}

TEST_F(ComposeTest, overrides_win_and_the_last_of_two_exclusive_keys_counts) {
  const Experiment e = read_experiment(load({"engine.read_ahead=8 KiB", "memory.ffn_in_dram=25%", "workload.seed=7"}));
  EXPECT_EQ(e.engine.weights.read_ahead, 8 * KiB);
  EXPECT_EQ(e.memory.ffn_in_dram, 0.25);
  EXPECT_FALSE(e.memory.budget.has_value());
  EXPECT_EQ(e.workload.seed, 7u);
}

TEST_F(ComposeTest, a_model_may_be_named_by_its_file_alone) {
  EXPECT_EQ(read_experiment(load({"model=/x/y.gguf"})).model.gguf, "/x/y.gguf");
}

TEST_F(ComposeTest, messages_name_file_and_line) {
  write("configs/engine.yaml", "policy: mmap\nread_ahaed: 64 KiB\n");
  EXPECT_NE(error_of({}).find("engine.yaml:2: engine.read_ahaed: unknown key (did you mean \"read_ahead\"?)"), std::string::npos)
      << error_of({});
  write("e.yaml", "experiment: e\nmodel: nowhere.yaml\nworkload: {prompt: hi}\n");
  EXPECT_NE(error_of({}).find("e.yaml:2: model: \"nowhere.yaml\" is not a file"), std::string::npos) << error_of({});
  write("e.yaml", "experiment: e\nmodel: configs\nworkload: {prompt: hi}\n");
  EXPECT_NE(error_of({}).find("e.yaml:2: model: \"configs\" is not a file"), std::string::npos) << error_of({});
}

// Composed trees are read elsewhere, so the paths are absolute, each from its own file.
TEST_F(ComposeTest, adapters_start_at_the_file_that_names_them) {
  write("configs/engine.yaml", "lora: {adapters: [{name: a, file: a.gguf}]}\n");
  EXPECT_EQ(read_experiment(load()).engine.lora.adapters.at(0).file, (root_ / "configs" / "a.gguf").string());
  const Experiment e = read_experiment(load({"engine.lora.adapters=[{name: b, file: b.gguf}]"}));
  EXPECT_EQ(e.engine.lora.adapters.at(0).file, (fs::current_path() / "b.gguf").string());
}

TEST_F(ComposeTest, plugins_of_the_experiment_join_those_of_its_device) {
  write("configs/phone.yaml", "name: phone\nplugins: [a.so]\n");
  write("e.yaml", "experiment: e\nmodel: {gguf: w.gguf}\nworkload: {prompt: hi}\ndevice: configs/phone.yaml\nplugins: [b.so]\n");
  const Node tree = load();
  EXPECT_EQ(tree.find("plugins"), nullptr);
  EXPECT_EQ(tree.find_path("device.plugins")->to_json(),
            "[\"" + (root_ / "configs/a.so").string() + "\",\"" + (root_ / "b.so").string() + "\"]");
  EXPECT_EQ(read_experiment(tree).device.find("plugins")->items()[1].origin().line, 5);
}

TEST_F(ComposeTest, malformed_overrides_are_refused) {
  EXPECT_NE(error_of({"nonsense"}).find("expected key=value"), std::string::npos);
  EXPECT_EQ(load({}, "gpu").find("machine")->origin().str(), "--machine:1");
  EXPECT_NE(error_of({"workload.batch=many"}).find("--set workload.batch:1"), std::string::npos) << error_of({"workload.batch=many"});
}

// A sweep's point is an override that stands in a file.
TEST_F(ComposeTest, an_override_with_a_place_has_its_line_and_its_folder) {
  const std::string at = "@" + (root_ / "e.yaml").string() + ":12\n";
  EXPECT_NE(error_of({at + "engine.polcy=mmap"}).find("e.yaml:12: engine.polcy: unknown key"), std::string::npos)
      << error_of({at + "engine.polcy=mmap"});
  EXPECT_EQ(read_experiment(load({at + "engine.record=r.vtrc"})).engine.record, (root_ / "r.vtrc").string());
  EXPECT_EQ(read_experiment(load({at + "model=configs/model.yaml"})).model.gguf, (root_ / "configs/weights.gguf").string());
  EXPECT_EQ(read_experiment(load({"@<dict>:1\nengine.record=r.vtrc"})).engine.record, (fs::current_path() / "r.vtrc").string());
  EXPECT_NE(error_of({"@e.yaml:x\nseed=1"}).find("unknown key"), std::string::npos) << "is no place, so it is a key";
}

TEST_F(ComposeTest, the_composed_tree_survives_json) {
  const Node tree = load({"memory.ffn_in_dram=25%"}, "host");
  const Experiment a = read_experiment(tree), b = read_experiment(parse_json(tree.to_json(), "resolved.json"));
  EXPECT_EQ(a.model.gguf, b.model.gguf);
  EXPECT_EQ(a.memory.ffn_in_dram, b.memory.ffn_in_dram);
  EXPECT_EQ(a.engine.policy, b.engine.policy);
  EXPECT_EQ(a.workload.prompt, b.workload.prompt);
}

TEST_F(ComposeTest, the_resolved_experiment_has_every_default) {
  const Node resolved = read_experiment(load({}, "host")).resolved;
  EXPECT_EQ(resolved.find_path("engine.weights.read_ahead")->text(), "64 KiB");
  EXPECT_EQ(resolved.find_path("engine.placement.threads")->text(), "auto");
  EXPECT_EQ(resolved.find_path("engine.kv.format")->text(), "f32");
  EXPECT_EQ(resolved.find_path("workload.output_tokens")->text(), "32");
  EXPECT_EQ(resolved.find_path("workload.sampling.top_p")->text(), "1");
  EXPECT_EQ(resolved.find_path("engine.ffn.kind")->text(), "dense") << "of the composition that the policy names";
}

TEST_F(ComposeTest, old_spellings_are_resolved_to_the_new_ones) {
  const Node resolved = read_experiment(load({"seed=7", "engine.numerics=off", "engine.policy=dense", "engine.units=cpu3"})).resolved;
  EXPECT_EQ(resolved.find("seed"), nullptr);
  EXPECT_EQ(resolved.find_path("workload.seed")->text(), "7");
  EXPECT_EQ(resolved.find_path("engine.numerics"), nullptr);
  EXPECT_EQ(resolved.find_path("engine.function")->text(), "draw");
  EXPECT_EQ(resolved.find_path("engine.placement.threads"), nullptr) << "units say which cores";
  EXPECT_NE(resolved.find_path("engine.profile.fraction"), nullptr) << "a draw without a profile has the default one";
  EXPECT_EQ(resolved.find_path("engine.weights.read_ahead"), nullptr) << "no pages are read";
}

TEST_F(ComposeTest, a_resolved_experiment_resolves_to_itself) {
  const std::vector<std::vector<std::string>> all{
      {},
      {"engine.kernels=hmx_q4", "seed=3"},
      {"engine.policy=neuron_cluster", "engine.hybrid={unit: npu, splits: [{batch: 1, hot: 10%}]}", "memory.ffn_in_dram=50%"},
      {"engine.policy=npumoe", "engine.moe={units: [cpu1], cold: 10%}"},
      {"engine.policy=anemll"},
      {"engine.policy=qnn", "engine.prefill_activations=int8_rows"},
      {"engine.policy=llm_npu", "engine.numerics=off", "engine.outliers=1%"},
      {"workload.scaling={method: beam_search, samples: 4}", "workload.sampling.temperature=1"},
      {"workload.output_tokens=[3, 5]"},
      {"workload={softmax: {columns: 64}}", "engine.numerics=off"}};
  for (const std::vector<std::string>& overrides : all) {
    SCOPED_TRACE(overrides.empty() ? "" : overrides.front());
    const std::string once = read_experiment(load(overrides, "host")).resolved.to_json();
    EXPECT_EQ(read_experiment(parse_json(once, "resolved.json")).resolved.to_json(), once);
  }
}

}  // namespace
}  // namespace vitro
