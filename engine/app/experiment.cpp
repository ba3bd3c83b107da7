#include "engine/app/experiment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "engine/app/old_engine_keys.hpp"
#include "engine/app/read_engine.hpp"
#include "engine/app/read_workload.hpp"

namespace vitro {
namespace {

constexpr std::string_view kSchema = "vitro.experiment/";
constexpr std::int64_t kVersion = 1;

// `schema: vitro.experiment/1`, which a resolved experiment always has. A file without it is of the first version.
void check_version(Reader& reader) {
  const std::string schema = reader.text("schema", fmt::format("{}{}", kSchema, kVersion));
  std::int64_t version = 0;
  const char* const end = schema.data() + schema.size();
  const bool known = schema.starts_with(kSchema) && std::from_chars(schema.data() + kSchema.size(), end, version).ptr == end && version > 0;
  if (!known) reader.fail("schema", fmt::format("\"{}\" is none (expected {}{})", schema, kSchema, kVersion));
  if (version > kVersion) {
    reader.fail("schema", fmt::format("{} is newer than this vitro, which reads up to {}{} (expected that version, or a newer vitro)",
                                      schema, kSchema, kVersion));
  }
}

MemoryConfig read_memory(Reader reader) {
  MemoryConfig memory;
  if (reader.has("budget")) memory.budget = static_cast<Bytes>(reader.quantity("budget", Dimension::bytes));
  if (reader.has("ffn_in_dram")) {
    memory.ffn_in_dram = reader.share("ffn_in_dram", 0);
    if (memory.budget) reader.fail("ffn_in_dram", "can not be combined with memory.budget (expected one of the two)");
  }
  memory.lock = reader.boolean("lock", false);
  reader.finish();
  return memory;
}

ModelSource read_model(Reader& reader) {
  ModelSource model;
  if (reader.has("gguf")) {
    model.gguf = reader.text("gguf");
    model.gguf_at = reader.node().find("gguf")->origin();
    model.pack = reader.text("pack", "");
    reader.finish();
  } else {
    if (!reader.has("shape")) reader.fail("gguf", "is missing (expected a file with weights, or `shape` for shapes alone)");
    model.shape = reader.node();
    for (const auto& [key, value] : reader.node().entries()) reader.ignore(key);
  }
  return model;
}

TraceConfig read_trace(Reader reader) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  TraceConfig trace;
  if (reader.choice("format", {"json", "perfetto"}, "json") == "perfetto") trace.format = TraceFormat::perfetto;
  trace.first_token = static_cast<std::uint32_t>(reader.integer("first_token", 1, kMost, trace.first_token));
  trace.tokens = static_cast<std::uint32_t>(reader.integer("tokens", 0, kMost, trace.tokens));
  trace.flows = reader.boolean("flows", trace.format == TraceFormat::perfetto);
  reader.finish();
  return trace;
}

// A model without weights has nothing to compute with: an engine that does not say where outcomes come from has them from its recording,
// or drawn. One that asks for values is refused.
void compute_nothing_on_shapes(Node& root) {
  const Node *model = root.find("model"), *engine = root.find("engine");
  if (model == nullptr || !model->is_map() || model->find("gguf") != nullptr || engine == nullptr || !engine->is_map()) return;
  const auto given = [&](std::string_view key) {
    const Node* value = engine->find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  };
  if (given("function") != nullptr) return;
  if (const Node* numerics = given("numerics"); numerics != nullptr) {
    if (!Reader(*engine, "engine").boolean("numerics", false)) return;
    fail_at(numerics->origin(), "engine.numerics", fmt::format("\"{}\" asks for values, but the model has shapes and no weights (expected "
                                                               "a model.gguf, or no engine.numerics)", numerics->text()));
  }
  Node drawn = *engine;
  drawn.set("numerics", Node::scalar("false", engine->origin()));
  root.set("engine", std::move(drawn));
}

// Of the fastest cores: the first cluster's, or the default of hw_models/cpu/core_costs.cpp.
std::string kernel_set_of(const Node& device) {
  const Node* clusters = device.find_path("cpu.clusters");
  const bool any = clusters != nullptr && clusters->is_list() && !clusters->items().empty();
  const Node* set = any ? clusters->items().front().find("kernel_set") : nullptr;
  if (set != nullptr && set->is_map()) set = set->find("value");  // beside its source
  return set != nullptr && set->is_scalar() ? set->text() : "neon-i8mm";
}

}  // namespace

Experiment read_experiment(const Node& given) {
  if (!given.is_map()) fail_at(given.origin(), "experiment", "is missing (expected a map of keys)");
  Node root = given;
  if (const Node* engine = given.find("engine"); engine == nullptr || engine->is_map() || engine->is_null()) {
    root.set("engine", over_policy(canonical_engine(engine == nullptr || engine->is_null() ? Node::map({}) : *engine)));
  }
  compute_nothing_on_shapes(root);
  Reader reader(root, "");
  check_version(reader);
  Experiment experiment;
  experiment.name = reader.text("experiment");
  if (const Node* name = root.find("experiment"); name->origin().file) experiment.file = *name->origin().file;
  experiment.machine = reader.choice("machine", {"sim", "host"}, "sim");
  if (const Node* device = reader.raw("device")) experiment.device = *device;
  if (experiment.machine == "sim" && experiment.device.is_null())
    reader.fail("device", "is missing (machine: sim needs a device file, such as configs/devices/oneplus12.yaml)");
  Reader model = reader.child("model"), engine = reader.child("engine");
  experiment.model = read_model(model);
  const bool of_model = experiment.model.shape && model.has("profile");
  experiment.profile_given = engine.has("profile") || of_model;
  // The model's own; engine.profile replaces it.
  if (of_model) experiment.profile = read_profile(model.child("profile"));
  experiment.engine = read_engine(engine, experiment.profile, of_model);
  if (experiment.machine == "sim") experiment.engine.products.simulated_set = kernel_set_of(experiment.device);
  Reader workload = reader.child("workload");
  experiment.workload = read_workload(workload, experiment.engine.numerics(), experiment.engine.lora.names());
  // `seed` at the top is the workload's: sweeps over seeds read better so.
  if (reader.has("seed")) {
    experiment.workload.seed = static_cast<std::uint64_t>(reader.integer("seed", 0, std::int64_t{1} << 62));
    reader.forget("seed");
    workload.rewrite("seed", *root.find("seed"));
  }
  if (std::optional<Reader> memory = reader.optional_child("memory")) experiment.memory = read_memory(std::move(*memory));
  if (std::optional<Reader> trace = reader.optional_child("trace")) experiment.trace = read_trace(std::move(*trace));
  if (std::optional<Reader> faults = reader.optional_child("faults")) experiment.faults = read_faults(std::move(*faults));
  if (experiment.model.shape && experiment.engine.numerics()) {
    reader.fail("model",
                "has shapes but no weights, so values can not be computed (expected engine.function: draw or replay, or a model.gguf)");
  }
  if (const Node* expect = reader.raw("expect")) experiment.expect = *expect;
  for (const char* key : {"metrics", "sweep", "description"}) reader.ignore(key);
  reader.finish();
  experiment.resolved = reader.resolved();
  return experiment;
}

}  // namespace vitro
