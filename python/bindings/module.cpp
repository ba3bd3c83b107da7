// vitro._vitro: the C++ side as plain functions on text and JSON. python/vitro/_native.py is its only caller.
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "describe.hpp"
#include "engine/base/file.hpp"
#include "engine/decode/policies.hpp"
#include "engine/experiment/io_replay.hpp"
#include "engine/experiment/loaded_model.hpp"
#include "engine/experiment/session.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/kernels/bench.hpp"
#include "engine/kernels/kernel_set.hpp"
#include "engine/kernels/variants.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/gguf_extend.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/operator_graph.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/pretokeniser.hpp"
#include "engine/model/quantize.hpp"
#include "engine/model/tokenizer.hpp"
#include "plan.hpp"
#include "probe.hpp"
#include "python_models.hpp"
#include "sim/bench.hpp"
#include "sim/characterize/characterize.hpp"
#include "sim/characterize/cross_fidelity.hpp"
#include "sim/machines.hpp"
#include "traces/firing_statistics.hpp"
#include "traces/profile_statistics.hpp"

namespace py = pybind11;

extern "C" __attribute__((visibility("default"))) int sc_main(int, char**) { return 1; }  // the SystemC library asks for one

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

Experiment compose(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides,
                   const std::string& machine) {
  const Node tree = is_path ? load_experiment(source, overrides, machine)
                            : compose_experiment(parse_yaml(source, name), std::filesystem::current_path().string(), overrides, machine);
  return read_experiment(tree);
}

// Packed models are kept between runs, in VITRO_CACHE or the user's cache folder.
std::string cache_dir() {
  if (const char* chosen = std::getenv("VITRO_CACHE"); chosen != nullptr && *chosen != '\0') return chosen;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') return std::string(xdg) + "/vitro";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.cache/vitro";
}

SessionOptions session_options(const std::string& out_dir) {
  SessionOptions options{out_dir, cache_dir(), nullptr};
  const char* wanted = std::getenv("VITRO_PROGRESS");
  if (wanted != nullptr && std::string_view(wanted) == "1") {
    options.progress = [](std::uint64_t done, std::uint64_t total) {
      std::fprintf(stderr, "progress %llu %llu\n", static_cast<unsigned long long>(done), static_cast<unsigned long long>(total));
    };
  }
  return options;
}

std::string resolve(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides) {
  return compose(source, name, is_path, overrides, "").resolved.to_json();
}

std::string run(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides,
                const std::optional<std::string>& machine, const std::optional<std::string>& out_dir, const py::list& models) {
  const hw::AddModels add_models = add_python_models(models);
  const py::gil_scoped_release free_gil;
  const Experiment experiment = compose(source, name, is_path, overrides, machine.value_or(""));
  return to_text(run_experiment(experiment, session_options(out_dir.value_or("")), sim::machines_with(add_models)));
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
                       const std::string& ffn_inputs, std::size_t ffn_input_rows) {
  Node root = Node::map({{"experiment", Node::scalar("perplexity")},
                         {"machine", Node::scalar("host")},
                         {"workload", Node::map({{"prompt_tokens", Node::scalar("1")}})}});
  std::vector<std::string> all{"model=" + model};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Experiment experiment = read_experiment(compose_experiment(root, std::filesystem::current_path().string(), all, ""));
  SessionOptions options = session_options("");
  options.ffn_inputs = ffn_inputs;
  options.ffn_input_rows = ffn_input_rows;
  const PerplexityResult result = measure_perplexity(experiment, read_text(text_path), options, sim::make_machine);
  const Likelihood& found = result.likelihood;
  Json out{{"nll", found.nll}, {"perplexity", std::exp(found.nll)}, {"tokens", found.tokens}, {"chunks", Json::array()}};
  for (const Likelihood::Chunk& chunk : found.chunks) out["chunks"].push_back({{"nll", chunk.nll}, {"tokens", chunk.tokens}});
  if (const auto recall = result.stats.recall()) out["predictor_recall"] = *recall;
  if (const auto precision = result.stats.precision()) out["predictor_precision"] = *precision;
  return out.dump();
}

// `spec`: {"floats": {key: [...]}, "booleans": {key: ...}, "tensors": [{"name", "dims", "format", "file"}, ...]}.
void extend(const std::string& src, const std::string& dst, const std::string& spec) {
  const Json added = Json::parse(spec);
  std::vector<std::pair<std::string, GgufValue>> values;
  for (const auto& [key, list] : added.at("floats").items()) {
    const auto numbers = list.get<std::vector<float>>();
    values.emplace_back(key, gguf_array(std::span(numbers)));
  }
  for (const auto& [key, value] : added.at("booleans").items()) values.emplace_back(key, value.get<bool>());
  std::vector<AddedTensor> tensors;
  for (const Json& tensor : added.at("tensors")) {
    const Format format = tensor.at("format").get<std::string>() == "f32" ? Format::f32 : Format::f16;
    tensors.push_back({tensor.at("name").get<std::string>(), tensor.at("dims").get<std::vector<std::uint64_t>>(), format,
                       tensor.at("file").get<std::string>()});
  }
  extend_gguf(src, dst, std::move(values), tensors);
}

std::vector<std::int32_t> tokenize(const std::string& model, const py::bytes& text) {
  return Tokenizer::from_gguf(Gguf::open(model))->encode(std::string(text));
}

// For the tests, which hold the scanners against the published regular expressions.
std::vector<py::bytes> pretokenise_text(const std::string& name, const py::bytes& text) {
  const std::optional<Pretokeniser> kind = pretokeniser_by_name(name);
  if (!kind) throw ConfigError("pretokenise: \"" + name + "\" is not known (expected gpt-2, llama-bpe or qwen2)");
  const std::string bytes(text);
  std::vector<py::bytes> words;
  for (const std::string_view word : pretokenise(*kind, bytes)) words.emplace_back(word.data(), word.size());
  return words;
}

std::string firing_of(const std::string& recording, const std::string& model) {
  Json rows = Json::array();
  for (const LayerFiring& f : firing_statistics(Recording::load(recording), config_from_gguf(Gguf::open(model)).ffn)) {
    rows.push_back({{"layer", f.layer},
                    {"expert", f.expert},
                    {"tokens", f.tokens},
                    {"active", f.active},
                    {"hot_share", f.hot_share},
                    {"repeated", f.repeated},
                    {"skew", fitted_skew(f)}});
  }
  return rows.dump();
}

std::string workload_statistics(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides,
                                std::uint32_t tokens, std::int16_t layer, std::int16_t expert) {
  const Experiment experiment = compose(source, name, is_path, overrides, "");
  const ModelConfig config = load_model(experiment.model, experiment.engine, session_options("").cache_dir).config;
  const int experts = static_cast<int>(std::max(config.experts, 1u));
  if (layer < 0 || layer >= static_cast<int>(config.layers)) {
    throw ConfigError(fmt::format("layer {}: the model has no such layer (expected 0 to {})", layer, config.layers - 1));
  }
  if (expert < 0 || expert >= experts) throw ConfigError(fmt::format("expert {}: expected 0 to {}", expert, experts - 1));
  StatisticsRequest request;
  request.seed = experiment.workload.seed;
  request.layer = layer;
  request.expert = config.experts > 0 ? expert : std::int16_t{-1};
  request.neurons = config.ffn;
  request.tokens = tokens;
  const ProfileStatistics found = profile_statistics(experiment.profile, request);
  Json out{{"neurons", config.ffn},
           {"tokens", tokens},
           {"fraction", found.fraction},
           {"repeated", found.repeated},
           {"named", found.named},
           {"recall", found.recall},
           {"coactivation", found.coactivation},
           {"cold_coactivation", found.cold_coactivation}};
  for (const auto& c : found.curve)
    out["curve"].push_back({{"neurons", c.neurons}, {"probability", c.probability}, {"firings", c.firings}});
  for (const auto& b : found.batches) out["batches"].push_back({{"sequences", b.sequences}, {"firing", b.firing}, {"hot", b.hot}});
  for (const auto& c : found.caches) out["caches"].push_back({{"neurons", c.neurons}, {"hits", c.hits}});
  return out.dump();
}

// The order that a file asks for: a recording's, hottest first, or that of a neuron index of PowerInfer.
NeuronOrder read_order(const std::string& path, const ModelConfig& config) {
  if (!Recording::is_recording(path)) return read_gpuidx(path, config);
  std::vector<std::vector<std::uint32_t>> places(std::size_t{config.layers} * std::max(config.experts, 1u));
  for (const LayerFiring& f : firing_statistics(Recording::load(path), config.ffn)) {
    const auto expert = static_cast<std::size_t>(std::max<int>(f.expert, 0));
    const std::size_t ffn = static_cast<std::size_t>(f.layer) * std::max(config.experts, 1u) + expert;
    if (ffn >= places.size()) throw ConfigError(fmt::format("{}: is a recording of another model", path));
    places[ffn] = hottest_first(f);
  }
  // An expert that nobody chose stays as it is.
  for (auto& ids : places) {
    for (std::uint32_t id = 0; ids.size() < config.ffn; ++id) ids.push_back(id);
  }
  return NeuronOrder(std::move(places), config, path);
}

// Packs a model by hand and says what lies where. `order`: a recording, a neuron index of PowerInfer, or "".
std::string pack_model(const std::string& src, const std::string& dst, const std::string& layout, const std::string& order) {
  const Gguf gguf = Gguf::open(src);
  PackOptions options = pack_options_of(layout);
  if (!order.empty()) options.order = read_order(order, config_from_gguf(gguf));
  const PackedModel packed = pack_to(gguf, options, dst);
  Json tensors = Json::array();
  for (const Weight& w : packed.weights) {
    Json row{{"name", w.name},
             {"role", to_string(w.role)},
             {"layer", w.layer},
             {"format", to_string(w.format)},
             {"layout", w.layout == Layout::tiled ? "tiled" : "rows"},
             {"rows", w.rows},
             {"columns", w.columns},
             {"experts", w.experts},
             {"offset", w.extent.offset},
             {"bytes", round_up(w.extent.length, kPageSize)},
             {"weight_bytes", w.payload_bytes()}};
    if (w.role == Role::ffn_bundle) {
      const BundleLayout bundles = w.bundles();
      row["layout"] = to_string(w.form);
      row["block_bytes"] = bundles.block;
      row["bundles_per_block"] = bundles.per_block;
      row["first_part_bytes"] = bundles.first_part;
    }
    tensors.push_back(std::move(row));
  }
  return Json{{"path", packed.path}, {"bytes", packed.size}, {"ordered", !packed.order.empty()}, {"tensors", tensors}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

std::string graph_dot(const std::string& model) {
  std::ostringstream out;
  write_dot(out, build_graph(config_from_gguf(Gguf::open(model))));
  return out.str();
}

std::string list(const std::string& kind, const std::string& root) {
  Json rows = Json::array();
  if (kind == "policies") {
    for (const PolicyInfo& info : policies()) rows.push_back({{"name", info.name}, {"description", info.description}});
  } else if (kind == "kernels") {
    for (const VariantId id : {variant::kFloat, variant::kInt8, variant::kReference}) {
      rows.push_back(
          {{"name", variant::name(id)}, {"description", std::string("numeric contract: ") + std::string(variant::describe(id))}});
    }
    const std::string_view fastest = kernel_sets().back()->name;
    for (const KernelSet* set : kernel_sets()) {
      rows.push_back({{"name", set->name},
                      {"description", std::string("instruction set of this machine") + (set->name == fastest ? ", used by default" : "")}});
    }
  } else if (kind == "devices") {
    rows = list_devices(root + "/configs/devices");
  } else if (kind == "plugins") {
    rows = list_plugins(root + "/configs/devices");
  } else {
    throw ConfigError("list: \"" + kind + "\" is not known (expected devices, models, policies, kernels or plugins)");
  }
  return rows.dump();
}

Node device_tree(const std::string& device) { return device.starts_with("{") ? parse_json(device, "device") : load_yaml(device); }

// A device file as a tree of its own: the paths of its plug-ins are absolute.
std::string load_device(const std::string& path) {
  Node device = load_yaml(path);
  std::vector<Node> plugins;
  for (const hw::PluginRef& ref : hw::plugins_of(device, false)) plugins.push_back(Node::scalar(ref.path, {}, true));
  if (!plugins.empty()) device.set("plugins", Node::list(std::move(plugins)));
  return device.to_json();
}

std::string device_parameters(const std::string& device, const py::list& models) {
  return describe_parameters(device_tree(device), add_python_models(models)).dump();
}

// One probe of a device, a path or a JSON text. Once per process: it simulates.
std::string characterize_probe(const std::string& device, const std::string& probe, const std::string& args) {
  const sim::ProbeResult result = sim::run_probe(device_tree(device), probe, parse_json(args, probe));
  Json measures = Json::object();
  for (const auto& [name, value] : result.measures) measures[name] = value;
  return Json{{"measures", measures}, {"assumed_parameters", result.assumed_parameters}, {"event_hash", result.event_hash}}.dump();
}

std::string cross_fidelity_plan(const std::string& device) {
  const sim::CrossFidelityPlan plan = sim::cross_fidelity_plan(device_tree(device));
  Json cases = Json::array(), without = Json::array();
  for (const sim::CrossFidelityCase& c : plan.cases) cases.push_back({c.part, c.name});
  for (const auto& [part, why] : plan.without_twin) without.push_back({{"part", part}, {"why", why}});
  return Json{{"cases", cases}, {"without_twin", without}}.dump();
}

std::string cross_fidelity(const std::string& device, const std::string& part, const std::string& name) {
  Json rows = Json::array();
  for (const sim::CrossFidelityRow& row : sim::cross_fidelity(device_tree(device), {part, name})) {
    rows.push_back({{"id", row.id}, {"unit", row.unit}, {"detailed", row.detailed}, {"other", row.other}, {"reference", row.reference}});
  }
  return rows.dump();
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

std::string bench(const std::string& kind, bool smoke, const std::string& root) {
  const HostExecutor clock;
  std::vector<BenchRow> measured;
  if (kind == "sim") {
    const Node device = load_yaml(root + "/configs/devices/oneplus12.yaml");
    measured = sim::bench_simulation(*device.find("ufs"), smoke, clock);
  } else if (kind == "kernels") {
    BenchOptions options;
    options.smoke = smoke;
    measured = bench_kernels(options, clock);
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
}  // namespace vitro

PYBIND11_MODULE(_vitro, m) {
  using namespace vitro;
  m.doc() = "The engine and its two machines. Use the vitro package; this module is its calling convention.";
  py::register_exception<ConfigError>(m, "ConfigError");
  py::register_exception<RunError>(m, "RunError");
  const auto free_gil = py::call_guard<py::gil_scoped_release>();
  m.def("resolve", &resolve, py::arg("source"), py::arg("name"), py::arg("is_path"), py::arg("overrides"));
  bind_model_types(m);
  m.def("run", &run, py::arg("source"), py::arg("name"), py::arg("is_path"), py::arg("overrides"), py::arg("machine"), py::arg("out_dir"),
        py::arg("models") = py::list());
  m.def("load_device", &load_device, py::arg("path"));
  m.def("device_parameters", &device_parameters, py::arg("device"), py::arg("models") = py::list());
  m.def("perplexity", &perplexity, py::arg("model"), py::arg("text_path"), py::arg("overrides"), py::arg("ffn_inputs") = "",
        py::arg("ffn_input_rows") = 0, free_gil);
  m.def("extend_gguf", &extend, py::arg("src"), py::arg("dst"), py::arg("spec"), free_gil);
  m.def("replay_io", &replay_reads, py::arg("recording"), py::arg("machine"), py::arg("device"), py::arg("file"), py::arg("depth"),
        py::arg("paced"), free_gil);
  m.def("characterize_probe", &characterize_probe, py::arg("device"), py::arg("probe"), py::arg("args"), free_gil);
  m.def("cross_fidelity_plan", &cross_fidelity_plan, py::arg("device"), free_gil);
  m.def("cross_fidelity", &cross_fidelity, py::arg("device"), py::arg("part"), py::arg("name"), free_gil);
  m.def("tokenize", &tokenize, py::arg("model"), py::arg("text"));
  m.def("pretokenise", &pretokenise_text, py::arg("pattern"), py::arg("text"));
  m.def("quantize", &quantize, py::arg("src"), py::arg("dst"), py::arg("scheme"), free_gil);
  m.def(
      "weight_error",
      [](const std::string& path, const std::string& reference) {
        const WeightError error = weight_error(path, reference);
        return Json{{"relative", error.relative}, {"bits_per_weight", error.bits_per_weight}}.dump();
      },
      py::arg("path"), py::arg("reference"), free_gil);
  m.def("pack", &pack_model, py::arg("src"), py::arg("dst"), py::arg("layout"), py::arg("order"), free_gil);
  m.def("firing_statistics", &firing_of, py::arg("recording"), py::arg("model"), free_gil);
  m.def("workload_statistics", &workload_statistics, py::arg("source"), py::arg("name"), py::arg("is_path"), py::arg("overrides"),
        py::arg("tokens"), py::arg("layer"), py::arg("expert"), free_gil);
  m.def("verify_packed", &verify_packed, py::arg("path"), free_gil);
  m.def("quantize_schemes", [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const QuantizeScheme& scheme : quantize_schemes()) out.emplace_back(scheme.name, scheme.what);
    return out;
  });
  m.def("plan_facts", &plan_facts_text, py::arg("source"), py::arg("name"), py::arg("is_path"), py::arg("overrides"));
  m.def("plan_profile", &plan_profile_text, py::arg("request"), free_gil);
  m.def("probe", &run_probe_text, py::arg("kind"), py::arg("args"), free_gil);
  m.def("bench", &bench, py::arg("kind"), py::arg("smoke"), py::arg("root") = "", free_gil);
  m.def("bench_run", &bench_run, py::arg("path"), py::arg("name"), py::arg("overrides"), free_gil);
  m.def("graph_dot", &graph_dot, py::arg("model"));
  m.def("list", &list, py::arg("kind"), py::arg("root") = "");
}
