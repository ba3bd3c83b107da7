#include "engine/app/experiment.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

constexpr std::string_view kMinimal =
    R"({"experiment": "e", "machine": "host", "model": {"gguf": "m.gguf"}, "workload": {"prompt": "hi"}})";

Experiment read_with(std::string_view dotted, std::string value) {
  Node root = parse_json(kMinimal, "e.json");
  root.set_path(dotted, parse_json(value, "e.json"));
  return read_experiment(root);
}

std::string error_of(std::string_view dotted, std::string value) {
  try {
    read_with(dotted, std::move(value));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Experiment, defaults_are_the_plain_ones) {
  const Experiment e = read_experiment(parse_json(kMinimal, "e.json"));
  EXPECT_EQ(e.engine.policy, "dense");
  EXPECT_EQ(e.engine.products.matmul, variant::kInt8);
  EXPECT_EQ(e.engine.placement.threads, 0u) << "as many as help";
  EXPECT_EQ(e.workload.batch, 1u);
  EXPECT_EQ(e.workload.sampling.temperature, 0);
  EXPECT_FALSE(e.memory.budget.has_value());
}

TEST(Experiment, is_a_map) {
  for (const char* text : {"3", "[]", "null", "\"text\""}) {
    try {
      read_experiment(parse_json(text, "e.json"));
      FAIL() << text;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("experiment: is missing (expected a map of keys)"), std::string::npos) << error.what();
    }
  }
}

TEST(Experiment, versions_are_written_and_newer_ones_refused) {
  EXPECT_EQ(read_experiment(parse_json(kMinimal, "e.json")).resolved.find("schema")->text(), "vitro.experiment/1");
  EXPECT_EQ(read_with("schema", R"("vitro.experiment/1")").name, "e");
  const std::string newer = error_of("schema", R"("vitro.experiment/2")");
  EXPECT_NE(newer.find("schema: vitro.experiment/2 is newer than this vitro, which reads up to vitro.experiment/1"), std::string::npos);
  for (const char* text : {R"("vitro.result/1")", R"("vitro.experiment/")", R"("vitro.experiment/0")", R"("vitro.experiment/1x")", "1"}) {
    EXPECT_NE(error_of("schema", text).find("is none (expected vitro.experiment/1)"), std::string::npos) << text;
  }
}

TEST(Experiment, an_empty_engine_part_means_the_same_as_none) {
  const Experiment e = read_with("engine", "{}");
  const Experiment none = read_experiment(parse_json(kMinimal, "e.json"));
  EXPECT_EQ(e.engine.products.matmul, none.engine.products.matmul);
  EXPECT_EQ(e.engine.weights.read_ahead, none.engine.weights.read_ahead);
  EXPECT_EQ(e.engine.prefill_chunk, none.engine.prefill_chunk);
}

TEST(Experiment, the_kernels_of_a_matrix_unit_are_a_contract_of_their_own) {
  const Experiment e = read_with("engine.kernels", "\"hmx_q4\"");
  EXPECT_EQ(e.engine.products.matmul, variant::kHmx);
  EXPECT_EQ(e.engine.products.isa, "auto");
  EXPECT_NE(error_of("engine", R"({"kernels": "hmx_q4", "activations": "int8"})")
                .find("engine.activations: can not be combined with engine.kernels (expected one of the two)"),
            std::string::npos);
}

// A Hexagon multiplies int8 or fp16: what its matrix unit takes is what it gets, unless something else is asked for.
TEST(Experiment, products_beside_a_hexagon_are_those_of_a_matrix_unit) {
  EXPECT_EQ(read_with("engine.activations", "\"fp16\"").engine.products.matmul, variant::kHmx);
  EXPECT_EQ(read_with("engine.prefill_activations", "\"int8_rows\"").engine.products.prefill_matmul, variant::kInt8Rows);
  EXPECT_EQ(read_with("engine.units", "\"hexagon\"").engine.products.matmul, variant::kHmx);
  EXPECT_EQ(read_with("engine.units", "\"gpu\"").engine.products.matmul, variant::kA16);
  EXPECT_EQ(read_with("engine.units", R"(["cpu0", "npu"])").engine.products.matmul, variant::kInt8);
  EXPECT_EQ(read_with("engine", R"({"units": "hexagon", "activations": "float"})").engine.products.matmul, variant::kFloat);
  EXPECT_EQ(read_with("engine", R"({"units": "hexagon", "activations": "int8"})").engine.products.matmul, variant::kInt8);
}

TEST(Experiment, quantities_need_units) {
  EXPECT_EQ(read_with("memory.budget", "\"6 MiB\"").memory.budget, 6 * MiB);
  EXPECT_NE(error_of("memory.budget", "6000000").find("memory.budget: \"6000000\" has no unit"), std::string::npos);
  EXPECT_EQ(read_with("memory.ffn_in_dram", "\"25%\"").memory.ffn_in_dram, 0.25);
  EXPECT_NE(error_of("memory.ffn_in_dram", "\"125%\"").find("\"125%\" is not a share (expected 0% to 100%)"), std::string::npos);
  EXPECT_NE(error_of("memory.budget", "\"-6 MiB\"").find("memory.budget: \"-6 MiB\" is negative"), std::string::npos);
}

TEST(Experiment, a_profile_may_say_what_its_predictor_gets_wrong_and_how_neurons_stand) {
  const DrawProfile plain = read_with("engine.profile", "{}").profile;
  EXPECT_EQ(plain.predictor.recall, 1);
  EXPECT_EQ(plain.predictor.precision, 1);
  EXPECT_FALSE(plain.ordered);
  const DrawProfile given = read_with("engine.profile", R"({"ordered": true, "predictor": {"recall": 0.98, "precision": 0.8}})").profile;
  EXPECT_EQ(given.predictor.recall, 0.98);
  EXPECT_EQ(given.predictor.precision, 0.8);
  EXPECT_TRUE(given.ordered);
  const std::string error = error_of("engine.profile", R"({"predictor": {"precision": 0}})");
  EXPECT_NE(error.find("engine.profile.predictor.precision"), std::string::npos) << error;
  EXPECT_NE(error.find("0.01"), std::string::npos) << error;
  EXPECT_NE(error_of("engine.profile", R"({"predictor": {"recal": 1}})").find("recal"), std::string::npos);
}

TEST(Experiment, a_profile_may_state_its_curve_and_its_task) {
  const DrawProfile given =
      read_with("engine.profile", R"({"curve": [{"neurons": "1%", "probability": "50%"}, {"neurons": "75%", "probability": "2%"}],
                                      "persistence": "90%", "task": "math", "task_share": "20%"})")
          .profile;
  ASSERT_EQ(given.layers.at(0).curve.size(), 2u);
  EXPECT_EQ(given.layers[0].curve[1].neurons, 0.75);
  EXPECT_EQ(given.layers[0].curve[1].probability, 0.02);
  EXPECT_EQ(given.expert_persistence, 0.9) << "as that of neurons, unless it is given";
  EXPECT_EQ(given.task, "math");
  EXPECT_EQ(given.task_share, 0.2);
  const auto refused = [](const char* profile, const char* message) {
    const std::string error = error_of("engine.profile", profile);
    EXPECT_NE(error.find(message), std::string::npos) << error;
  };
  refused(R"({"fraction": "10%", "curve": [{"neurons": "1%", "probability": "50%"}]})", "can not be combined with curve");
  refused(R"({"curve": []})", "empty");
  refused(R"({"curve": [{"neurons": "1%"}]})", "curve.probability");
  refused(R"({"curve": [{"neurons": "5%", "probability": "5%"}, {"neurons": "5%",
          "probability": "5%"}]})",
          "is not larger than at the point before");
  refused(R"({"curve": [{"neurons": "5%", "probability": "5%"}, {"neurons": "6%", "probability": "6%"}]})", "hottest neurons first");
  refused(R"({"task": "math"})", "task_share");
  refused(R"({"persistence": "101%"})", "0% to 100%");
}

TEST(Experiment, a_seed_at_the_top_is_the_workloads) {
  EXPECT_EQ(read_with("seed", "5").workload.seed, 5u);
  EXPECT_NE(error_of("seed", "-1").find("seed"), std::string::npos);
}

TEST(Experiment, choices_that_exclude_each_other_are_refused) {
  EXPECT_NE(error_of("memory", R"({"budget": "1 GiB", "ffn_in_dram": "50%"})").find("one of the two"), std::string::npos);
  EXPECT_NE(error_of("engine", R"({"units": ["cpu0"], "threads": 2})").find("one of the two"), std::string::npos);
  EXPECT_NE(error_of("workload", R"({"prompt": "a", "prompt_tokens": 3})").find("exactly one"), std::string::npos);
  EXPECT_NE(error_of("workload", "{}").find("exactly one"), std::string::npos);
}

TEST(Experiment, unknown_keys_are_refused_with_the_nearest_known_one) {
  EXPECT_NE(error_of("engine.polcy", "\"dense\"").find("did you mean \"policy\""), std::string::npos);
  EXPECT_NE(error_of("workload.promt", "\"x\"").find("did you mean \"prompt\""), std::string::npos);
  EXPECT_NE(error_of("modle", "{}").find("did you mean \"model\""), std::string::npos);
  EXPECT_NE(error_of("model", R"({"ggfu": "a.gguf"})").find("model.ggfu: unknown key (did you mean \"gguf\"?)"), std::string::npos);
  EXPECT_NE(error_of("model", R"({"shpae": {}})").find("model.gguf: is missing (expected a file with weights"), std::string::npos);
  EXPECT_NE(error_of("workload", R"({"promt": "a"})").find("workload.promt: unknown key (did you mean \"prompt\"?)"), std::string::npos);
}

TEST(Experiment, a_simulation_needs_a_device_and_shapes_need_a_source_of_outcomes) {
  EXPECT_NE(error_of("machine", "\"sim\"").find("device"), std::string::npos);
  const auto on_shapes = [](const std::string& engine) {
    Node root = parse_json(kMinimal, "e.json");
    root.set("model", parse_json(R"({"name": "x", "shape": {}})", "e.json"));
    root.set("engine", parse_json(engine, "e.json"));
    return root;
  };
  const auto refused = [&](const std::string& engine) -> std::string {
    try {
      read_experiment(on_shapes(engine));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused(R"({"function": "compute"})").find("engine.function"), std::string::npos);
  for (const char* on : {"true", "\"on\"", "\"yes\""}) {
    const std::string message = refused(fmt::format(R"({{"numerics": {}}})", on));
    EXPECT_NE(message.find("e.json:1: engine.numerics: "), std::string::npos) << message;
    EXPECT_NE(message.find("shapes and no weights"), std::string::npos) << message;
  }
  EXPECT_NE(refused(R"({"numerics": "of"})").find("expected true or false"), std::string::npos);
  EXPECT_NE(error_of("model", R"({"name": "x"})").find("e.json:1: model.gguf: is missing"), std::string::npos);
  EXPECT_EQ(read_experiment(on_shapes("{}")).engine.function, FunctionKind::draw);
  EXPECT_EQ(read_experiment(on_shapes("null")).engine.function, FunctionKind::draw);
  EXPECT_EQ(read_experiment(on_shapes(R"({"numerics": false})")).engine.function, FunctionKind::draw);
  EXPECT_EQ(read_experiment(on_shapes(R"({"replay": "a.rec"})")).engine.function, FunctionKind::replay);
  EXPECT_EQ(read_experiment(on_shapes("{}")).resolved.find_path("engine.function")->text(), "draw");
  EXPECT_NE(error_of("engine.function", "\"replay\"").find("engine.replay"), std::string::npos);
}

TEST(Experiment, numerics_off_draws_or_replays) {
  EXPECT_EQ(read_with("engine.numerics", "false").engine.function, FunctionKind::draw);
  EXPECT_EQ(read_with("engine", R"({"numerics": false, "replay": "a.rec"})").engine.function, FunctionKind::replay);
  EXPECT_EQ(read_with("engine.numerics", "true").engine.function, FunctionKind::compute);
}

TEST(Experiment, a_list_of_lengths_is_a_batch_whose_sequences_end_one_by_one) {
  const Workload listed = read_with("workload.output_tokens", "[4, 8, 12]").workload;
  EXPECT_EQ(listed.lengths, (std::vector<std::uint32_t>{4, 8, 12}));
  EXPECT_EQ(listed.batch, 3u);
  EXPECT_EQ(listed.output_tokens, 12u);
  EXPECT_EQ(read_with("workload.batch", "2").workload.lengths, (std::vector<std::uint32_t>{32, 32}));
  EXPECT_NE(error_of("workload.output_tokens", "[]").find("0 lengths (expected 1 to 1024)"), std::string::npos);
  EXPECT_NE(error_of("workload.output_tokens", "[4, 0]").find("\"0\" (expected a whole number from 1"), std::string::npos);
}

Experiment read_adapted(const std::string& workload) {
  Node root = parse_json(kMinimal, "e.json");
  root.set_path("engine.lora", parse_json(R"({"adapters": [{"name": "a", "file": "a.gguf"}, {"name": "b", "file": "b.gguf"}]})", "e.json"));
  root.set_path("workload", parse_json(workload, "e.json"));
  return read_experiment(root);
}

TEST(Experiment, sequences_and_requests_have_adapters_by_name) {
  using Numbers = std::vector<std::uint32_t>;
  EXPECT_EQ(read_adapted(R"({"prompt": "hi"})").workload.requests.at(0).adapters, Numbers{});
  EXPECT_EQ(read_adapted(R"({"prompt": "hi", "batch": 3, "adapter": "b"})").workload.requests.at(0).adapters, (Numbers{2, 2, 2}));
  const Workload several = read_adapted(R"({"prompt": "hi", "batch": 2, "adapter": ["none", "a"],
                                            "requests": [{}, {"adapter": "b"}, {"prompt": "ho"}, {"prompt_tokens": 4}]})")
                               .workload;
  ASSERT_EQ(several.requests.size(), 4u);
  EXPECT_EQ(several.requests[0].adapters, (Numbers{0, 1}));
  EXPECT_EQ(several.requests[0].prompt, "hi");
  EXPECT_EQ(several.requests[1].adapters, (Numbers{2, 2}));
  EXPECT_EQ(several.requests[2].prompt, "ho");
  EXPECT_EQ(several.requests[3].prompt_tokens, 4u);
  EXPECT_FALSE(several.requests[3].prompt);
}

std::string refused(const std::string& workload) {
  try {
    read_adapted(workload);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Experiment, adapters_that_there_are_not_and_lists_of_another_length_are_refused) {
  EXPECT_NE(refused(R"({"prompt": "hi", "adapter": "c"})").find("workload.adapter: \"c\" is no adapter"), std::string::npos);
  EXPECT_NE(refused(R"({"prompt": "hi", "adapter": ["a", "b"]})").find("has 2 names for a batch of 1"), std::string::npos);
  EXPECT_NE(refused(R"({"prompt": "hi", "requests": []})").find("workload.requests: is empty"), std::string::npos);
  EXPECT_NE(refused(R"({"prompt": "hi", "requests": [{"prompt": "a", "prompt_tokens": 3}]})").find("exactly one of prompt"),
            std::string::npos);
}

TEST(Experiment, what_goes_on_has_no_prompt_but_its_own_and_the_adapter_of_what_was_kept) {
  const Workload chat = read_adapted(R"({"prompt": "hi", "adapter": "a", "kept_in": "flash",
                                         "requests": [{"keep_as": "x"}, {"continue": "x"}, {"continue": "x", "prompt_tokens": 3}]})")
                            .workload;
  EXPECT_EQ(chat.kept_in, KeptIn::flash);
  EXPECT_EQ(chat.requests.at(0).keep_as, "x");
  EXPECT_EQ(chat.requests[0].prompt, "hi");
  EXPECT_EQ(chat.requests[1].goes_on, "x");
  EXPECT_FALSE(chat.requests[1].prompt || chat.requests[1].prompt_tokens);
  EXPECT_EQ(chat.requests[2].prompt_tokens, 3u);
  const std::string other =
      refused(R"({"prompt": "hi", "requests": [{"adapter": "a", "keep_as": "x"}, {"adapter": "b", "continue": "x"}]})");
  EXPECT_NE(other.find("workload.requests.adapter: is not that of \"x\""), std::string::npos) << other;
  const std::string none = refused(R"({"prompt": "hi", "requests": [{"adapter": "a", "keep_as": "x"}, {"continue": "x"}]})");
  EXPECT_NE(none.find("workload.requests.adapter: is not that of \"x\""), std::string::npos) << none;
  const std::string samples = refused(R"({"prompt": "hi", "requests": [{"keep_as": "x"}], "sampling": {"temperature": 1},
      "scaling": {"method": "best_of_n", "samples": 2, "scorer": {"kind": "log_probability"}}})");
  EXPECT_NE(samples.find("keep_as is for one sequence"), std::string::npos) << samples;
  EXPECT_NE(refused(R"({"prompt": "hi", "batch": 2, "requests": [{"keep_as": "x"}]})").find("keep_as"), std::string::npos);
}

TEST(Experiment, ranges_are_checked) {
  EXPECT_NE(error_of("workload.batch", "0").find("from 1"), std::string::npos);
  EXPECT_NE(error_of("engine.policy", "\"denze\"").find("e.json:1: engine.policy: \"denze\" (expected one of: dense, mmap"),
            std::string::npos);
  EXPECT_NE(error_of("engine.units", R"(["cpu1", "cpu1"])").find("e.json:1: engine.units: \"cpu1\" is named twice"), std::string::npos);
  EXPECT_NE(error_of("workload.output_tokens", "1.5").find("whole number"), std::string::npos);
  EXPECT_NE(error_of("engine.read_ahead", "\"1000 B\"").find("multiple"), std::string::npos);
  EXPECT_NE(error_of("workload.sampling", R"({"top_p": 2})").find("from 0 to 1"), std::string::npos);
}

}  // namespace
}  // namespace vitro
