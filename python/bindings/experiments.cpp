// Experiments: composed, run, replayed, scored and timed.
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "composed.hpp"
#include "engine/app/gptq_pass.hpp"
#include "engine/app/io_replay.hpp"
#include "engine/app/loaded_model.hpp"
#include "engine/app/report.hpp"
#include "engine/app/session.hpp"
#include "engine/app/smallest_budget.hpp"
#include "engine/base/file.hpp"
#include "engine/base/json_value.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/kernels/bench.hpp"
#include "module.hpp"
#include "plan.hpp"
#include "python_models.hpp"
#include "python_policies.hpp"
#include "python_scorer.hpp"
#include "sim/bench.hpp"
#include "sim/machines.hpp"
#include "traces/profile_statistics.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

Node composed(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides,
              const std::string& machine) {
  return is_path ? load_experiment(source, overrides, machine)
                 : compose_experiment(parse_yaml(source, name), std::filesystem::current_path().string(), overrides, machine);
}

Experiment compose(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides,
                   const std::string& machine) {
  return read_experiment(composed(source, name, is_path, overrides, machine));
}

// Packed models are kept between runs, in VITRO_CACHE or the user's cache folder.
std::string cache_dir() {
  if (const char* chosen = std::getenv("VITRO_CACHE"); chosen != nullptr && *chosen != '\0') return chosen;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') return std::string(xdg) + "/vitro";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.cache/vitro";
}

SessionOptions session_options(const std::string& out_dir, ScoreFunction scorer = {}) {
  SessionOptions options{.out_dir = out_dir, .cache_dir = cache_dir(), .scorer = std::move(scorer)};
  const char* wanted = std::getenv("VITRO_PROGRESS");
  if (wanted != nullptr && std::string_view(wanted) == "1") {
    options.progress = [](std::uint64_t done, std::uint64_t total) {
      std::fprintf(stderr, "progress %llu %llu\n", static_cast<unsigned long long>(done), static_cast<unsigned long long>(total));
    };
  }
  return options;
}

// What was put together: as it was given, with every default, and the text of a tree that run() takes.
std::string compose_text(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides,
                         const std::string& machine) {
  const Node given = composed(source, name, is_path, overrides, machine);
  const Node resolved = read_experiment(given).resolved;
  std::string tree;
  append_json_string(tree, packed_tree(given));
  return fmt::format(R"({{"given": {}, "resolved": {}, "tree": {}}})", given.to_json(), resolved.to_json(), tree);
}

Experiment experiment_of(const std::string& tree) { return read_experiment(unpacked_tree(tree)); }

void check_outputs(const std::string& tree) { require_outputs(experiment_of(tree)); }

// Whether what runs decides by the values that it computes, so that shapes alone can not repeat its decisions.
bool follows_activations(const std::string& tree) { return experiment_of(tree).engine.ffn.kind != "dense"; }

// Of any YAML file.
std::string yaml_as_json(const std::string& text, const std::string& name) { return parse_yaml(text, name).to_json(); }

std::string file_origins(const std::string& path) { return packed_tree(load_yaml(path)); }

std::string run(const std::string& tree, const std::optional<std::string>& out_dir, const py::list& models, const py::object& scorer,
                const py::list& policies) {
  const hw::AddModels add_models = add_python_models(models);
  const BroughtToRun brought(policies);
  const bool reports = !policies.empty();
  SessionOptions options = session_options(out_dir.value_or(""), python_scorer(scorer));
  const py::gil_scoped_release free_gil;
  const HostExecutor clock;
  const Picoseconds begin = clock.now();
  Json result = run_experiment(experiment_of(tree), options, sim::machines_with(add_models));
  if (reports) result["policies"] = brought.report(to_seconds(clock.now() - begin));
  return to_text(result);
}

// Of an experiment whose run was refused; null: another budget would not have helped, or nobody knows.
std::string smallest_budget_of(const std::string& tree, const py::list& models, const py::object& /*scorer*/, const py::list& policies) {
  const hw::AddModels add_models = add_python_models(models);
  const BroughtToRun brought(policies);
  const py::gil_scoped_release free_gil;
  const auto found = smallest_budget(experiment_of(tree), cache_dir(), sim::machines_with(add_models));
  if (!found) return "null";
  Json answer{{"tried", found->tried}, {"budget", found->budget}, {"granule", found->granule}, {"at_least", found->at_least}};
  if (found->share) answer["share"] = *found->share;
  return answer.dump();
}

std::string replay_reads(const std::string& recording, const std::string& machine, const std::string& device, const std::string& file,
                         std::uint32_t depth, bool paced) {
  IoReplay replay;
  replay.recording = recording;
  replay.machine.kind = machine;
  if (!device.empty()) replay.machine.device = load_yaml(device);
  replay.machine.phantom = file.empty();
  replay.file = file;
  replay.depth = depth;
  replay.paced = paced;
  return replay_io(replay, sim::make_machine).dump();
}

std::string perplexity(const std::string& model, const std::string& text_path, const std::vector<std::string>& overrides,
                       const std::string& ffn_inputs, std::size_t ffn_input_rows, std::uint32_t context) {
  Node root = Node::map({{"experiment", Node::scalar("perplexity")},
                         {"machine", Node::scalar("host")},
                         {"workload", Node::map({{"prompt_tokens", Node::scalar("1")}})}});
  std::vector<std::string> all{"model=" + model};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Experiment experiment = read_experiment(compose_experiment(root, std::filesystem::current_path().string(), all, ""));
  SessionOptions options = session_options("");
  options.ffn_inputs = ffn_inputs;
  options.ffn_input_rows = ffn_input_rows;
  options.context = context;
  const PerplexityResult result = measure_perplexity(experiment, read_text(text_path), options, sim::make_machine);
  const Likelihood& found = result.likelihood;
  Json out{{"nll", found.nll}, {"perplexity", std::exp(found.nll)}, {"tokens", found.tokens}, {"chunks", Json::array()}};
  for (const Likelihood::Chunk& chunk : found.chunks) out["chunks"].push_back({{"nll", chunk.nll}, {"tokens", chunk.tokens}});
  if (const auto recall = result.stats.recall()) out["predictor_recall"] = *recall;
  if (const auto precision = result.stats.precision()) out["predictor_precision"] = *precision;
  if (result.experts) out["experts"] = expert_metrics(*result.experts);
  return out.dump();
}

// `embedding`, `output`: names of formats, or "". `scratch`: an empty folder.
std::string gptq(const std::string& src, const std::string& dst, const std::string& scheme, const std::string& embedding,
                 const std::string& output, const std::string& text_path, double damp, bool act_order, const std::string& scratch) {
  const auto format = [](std::string_view option, const std::string& name) {
    return name.empty() ? std::nullopt : std::optional(written_format(option, name));
  };
  const GptqPass pass{src,       dst,  scheme,  {format("--embedding", embedding), format("--output", output)},
                      text_path, {damp, act_order}, scratch, session_options("").progress};
  const GptqPassReport report = quantize_by_gptq(pass, read_text(text_path), sim::make_machine);
  return Json{{"tokens", report.tokens}, {"window", report.window}, {"matrices", report.matrices}}.dump();
}

// What there is to know of the profile before its numbers are believed. Throws ConfigError where no run would draw from one.
Json drawn_from(const Experiment& experiment) {
  const Node& tree = experiment.resolved;
  const bool named = experiment.profile_given;
  if (!named && experiment.engine.function != FunctionKind::draw) {
    fail_at(tree.find("model")->origin(), "model",
            "has weights or a recording, which say what fires, and no profile to draw from (`vitro profile MODEL.gguf TEXT` records what "
            "fires; expected engine.profile, such as {fraction: 20%, skew: 0.8}, or engine.function: draw)");
  }
  Json notes = Json::array();
  if (!named) {
    notes.push_back("drawn from the default profile, 10 % of the neurons and all alike: there is no engine.profile and no model.profile");
  }
  if (experiment.engine.function != FunctionKind::draw) {
    notes.push_back("runs of this experiment do not draw what fires: they would with engine.function: draw");
  }
  return notes;
}

std::string workload_statistics(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides,
                                std::uint32_t tokens, std::int16_t layer, std::int16_t expert) {
  const Experiment experiment = compose(source, name, is_path, overrides, "");
  const Json notes = drawn_from(experiment);
  const ModelConfig config = load_model(experiment.model, experiment.engine, session_options("").cache_dir).config;
  if (layer < 0 || layer >= static_cast<int>(config.layers)) {
    throw ConfigError(fmt::format("layer {}: the model has no such layer (expected 0 to {})", layer, config.layers - 1));
  }
  const bool mixture = config.has_experts(layer);
  const int experts = mixture ? static_cast<int>(config.experts) : 1;
  if (expert < 0 || expert >= experts) throw ConfigError(fmt::format("expert {}: expected 0 to {}", expert, experts - 1));
  StatisticsRequest request;
  request.seed = experiment.workload.seed;
  request.layer = layer;
  request.expert = mixture ? expert : std::int16_t{-1};
  request.neurons = config.ffn_of(layer);
  request.tokens = tokens;
  const ProfileStatistics found = profile_statistics(experiment.profile, request);
  Json out{{"neurons", request.neurons},
           {"tokens", tokens},
           {"fraction", found.fraction},
           {"repeated", found.repeated},
           {"named", found.named},
           {"recall", found.recall},
           {"coactivation", found.coactivation},
           {"cold_coactivation", found.cold_coactivation},
           {"notes", notes}};
  for (const auto& c : found.curve)
    out["curve"].push_back({{"neurons", c.neurons}, {"probability", c.probability}, {"firings", c.firings}});
  for (const auto& b : found.batches) out["batches"].push_back({{"sequences", b.sequences}, {"firing", b.firing}, {"hot", b.hot}});
  for (const auto& c : found.caches) out["caches"].push_back({{"neurons", c.neurons}, {"hits", c.hits}});
  if (mixture) {
    const ExpertStatistics chosen = expert_statistics(experiment.profile, request.seed, layer, config.experts, config.experts_used, tokens);
    out["experts"] = {{"shared", chosen.shared}, {"same_first", chosen.same_first}};
  }
  return out.dump();
}

// Wall time and the highest resident set of this process beside the result: one run per process.
std::string bench_run(const std::string& source, const std::string& name, const std::vector<std::string>& overrides) {
  const Experiment experiment = compose(source, name, true, overrides, "");
  const HostExecutor clock;
  const Picoseconds begin = clock.now();
  Json result = run_experiment(experiment, session_options(""), sim::make_machine);
  const double seconds = to_seconds(clock.now() - begin);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  result.erase("experiment_resolved");
  return Json{{"result", std::move(result)}, {"wall_s", seconds}, {"peak_rss_bytes", usage.ru_maxrss * 1024}}.dump();
}

// only: of the kernels, rows whose name begins with it.
std::string bench(const std::string& kind, bool smoke, const std::string& root, const std::string& only) {
  const HostExecutor clock;
  std::vector<BenchRow> measured;
  if (kind == "sim") {
    const Node device = load_yaml(root + "/configs/devices/oneplus12.yaml");
    measured = sim::bench_simulation(*device.find("ufs"), smoke, clock);
  } else if (kind == "kernels") {
    BenchOptions options;
    options.smoke = smoke;
    options.only = only;
    measured = bench_kernels(options, clock);
    if (measured.empty()) {
      throw ConfigError("bench: no row of the kernels begins with \"" + only + "\" (expected for example \"matvec q4_0\")");
    }
  } else {
    throw ConfigError("bench: \"" + kind + "\" is not known (expected kernels or sim)");
  }
  Json rows = Json::array();
  for (const BenchRow& row : measured) {
    const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
    rows.push_back({{"name", row.name},
                    {"value", row.value},
                    {"unit", row.unit},
                    {"limit", number(row.limit)},
                    {"fraction_of_limit", number(row.fraction_of_limit)}});
    if (!row.result_hash.empty()) rows.back()["result_hash"] = row.result_hash;
  }
  return rows.dump();
}

}  // namespace

void bind_experiments(py::module_& m) {
  const auto free_gil = py::call_guard<py::gil_scoped_release>();
  m.def("compose", &compose_text, py::arg("source"), py::arg("name"), py::arg("is_path"), py::arg("overrides"), py::arg("machine"));
  m.def("check_outputs", &check_outputs, py::arg("tree"));
  m.def("follows_activations", &follows_activations, py::arg("tree"));
  m.def("parse_yaml", &yaml_as_json, py::arg("text"), py::arg("name"));
  m.def("file_origins", &file_origins, py::arg("path"));
  m.def("run", &run, py::arg("tree"), py::arg("out_dir"), py::arg("models") = py::list(), py::arg("scorer") = py::none(),
        py::arg("policies") = py::list());
  m.def("smallest_budget", &smallest_budget_of, py::arg("tree"), py::arg("models") = py::list(), py::arg("scorer") = py::none(),
        py::arg("policies") = py::list());
  m.def("replay_io", &replay_reads, py::arg("recording"), py::arg("machine"), py::arg("device"), py::arg("file"), py::arg("depth"),
        py::arg("paced"), free_gil);
  m.def("perplexity", &perplexity, py::arg("model"), py::arg("text_path"), py::arg("overrides"), py::arg("ffn_inputs") = "",
        py::arg("ffn_input_rows") = 0, py::arg("context") = 0, free_gil);
  m.def("gptq_schemes", &gptq_schemes);
  m.def("quantize_by_gptq", &gptq, py::arg("src"), py::arg("dst"), py::arg("scheme"), py::arg("embedding"), py::arg("output"),
        py::arg("text_path"), py::arg("damp"), py::arg("act_order"), py::arg("scratch"), free_gil);
  m.def("workload_statistics", &workload_statistics, py::arg("source"), py::arg("name"), py::arg("is_path"), py::arg("overrides"),
        py::arg("tokens"), py::arg("layer"), py::arg("expert"), free_gil);
  m.def("plan_facts", &plan_facts_text, py::arg("tree"));
  m.def("plan_profile", &plan_profile_text, py::arg("request"), free_gil);
  m.def("bench_run", &bench_run, py::arg("path"), py::arg("name"), py::arg("overrides"), free_gil);
  m.def("bench", &bench, py::arg("kind"), py::arg("smoke"), py::arg("root") = "", py::arg("only") = "",
        free_gil);
}

}  // namespace vitro
