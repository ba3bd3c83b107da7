// Cases as files, and what they stand for: an experiment whose models and adapters are made by seed.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/quant/blocks.hpp"
#include "engine/torture/random_adapter.hpp"
#include "engine/torture/torture.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMost = std::int64_t{1} << 62;

RandomModel read_model(Reader model) {
  RandomModel read;
  read.mixture = model.choice("kind", {"dense", "mixture"}) == "mixture";
  read.seed = static_cast<std::uint64_t>(model.integer("seed", 0, kMost));
  read.layers = static_cast<std::uint32_t>(model.integer("layers", 1, 100, 2));
  read.value_head = model.boolean("value_head", false);
  read.other = model.boolean("other", false);
  if (read.other && read.mixture && read.layers < 2) model.fail("layers", "is 1, and the first layer is dense (expected 2 or more)");
  const std::string name = model.text("format");
  const std::optional<Format> format = format_by_name(name);
  if (!format || !format->is_for_weights()) model.fail("format", fmt::format("\"{}\" is not a weight format", name));
  read.matrices = *format;
  model.finish();
  return read;
}

std::vector<std::uint64_t> read_adapters(Reader& reader) {
  std::vector<std::uint64_t> seeds;
  for (Reader& entry : reader.maps("adapters")) {
    seeds.push_back(static_cast<std::uint64_t>(entry.integer("seed", 0, kMost)));
    entry.finish();
  }
  return seeds;
}

Json to_json(const RandomModel& model) {
  Json json{{"kind", model.mixture ? "mixture" : "dense"}, {"seed", model.seed}, {"layers", model.layers},
            {"format", to_string(model.matrices)}};
  if (model.value_head) json["value_head"] = true;
  if (model.other) json["other"] = true;
  return json;
}

std::string name_of(const RandomModel& model) {
  return fmt::format("{}-{}-{}-{}{}{}", model.mixture ? "mixture" : "dense", model.layers, model.seed, to_string(model.matrices),
                     model.value_head ? "-value" : "", model.other ? "-other" : "");
}

// Files are made once, whole, for all cases that have them.
template <class Write>
std::string made(const TortureOptions& options, const std::string& name, Write write) {
  const std::string path = options.folder + "/" + name + ".gguf";
  if (!std::filesystem::exists(path)) {
    std::filesystem::create_directories(options.folder);
    write(path);
  }
  return path;
}

std::string made(const TortureOptions& options, const RandomModel& model) {
  return made(options, name_of(model), [&](const std::string& path) { write_random_model(model, path); });
}

Node text(const std::string& words) { return Node::scalar(words, {}, true); }

}  // namespace

Subject subject_of(const TortureCase& test, const TortureOptions& options) {
  Subject subject;
  subject.experiment = test.experiment;
  subject.cache_dir = options.folder + "/packs";
  if (test.model) {
    const std::string base = made(options, *test.model);
    subject.experiment.set("model", Node::map({{"gguf", text(base)}}));
    std::vector<Node> adapters;
    for (const std::uint64_t seed : test.adapters) {
      const auto write = [&](const std::string& path) { write_random_adapter(seed, base, path); };
      const std::string file = made(options, fmt::format("{}-lora-{}", name_of(*test.model), seed), write);
      adapters.push_back(Node::map({{"name", text(fmt::format("a{}", adapters.size()))}, {"file", text(file)}}));
    }
    if (!adapters.empty()) subject.experiment.set_path("engine.lora.adapters", Node::list(std::move(adapters)));
  }
  if (test.reward) subject.experiment.set_path("workload.scaling.scorer.gguf", text(made(options, *test.reward)));
  subject.machines = test.machine == "virtual" ? virtual_machines(test.timing) : options.machines;
  subject.once = test.machine == "sim";
  subject.plant = options.plant;
  subject.plant_in_cache = options.plant_in_cache;
  return subject;
}

TortureCase torture_case(const Node& json) {
  Reader reader(json, "");
  TortureCase test;
  test.seed = static_cast<std::uint64_t>(reader.integer("seed", 0, kMost));
  test.machine = reader.choice("machine", {"virtual", "sim", "host"}, "virtual");
  test.timing = static_cast<std::uint64_t>(reader.integer("timing", 0, kMost, 1));
  if (const Node* experiment = reader.raw("experiment")) test.experiment = *experiment;
  if (!test.experiment.is_map()) reader.fail("experiment", "is missing (expected the keys of an experiment)");
  if (std::optional<Reader> model = reader.optional_child("model")) test.model = read_model(std::move(*model));
  if (reader.has("adapters")) test.adapters = read_adapters(reader);
  if (!test.adapters.empty() && !test.model) reader.fail("adapters", "needs the model that they are of (expected model)");
  if (std::optional<Reader> reward = reader.optional_child("reward")) test.reward = read_model(std::move(*reward));
  if (std::optional<Reader> faults = reader.optional_child("faults")) test.faults = read_faults(std::move(*faults));
  for (const char* key : {"why", "outcome"}) reader.ignore(key);
  reader.finish();
  return test;
}

std::string to_json(const TortureCase& test) {
  Json json{{"seed", test.seed}, {"machine", test.machine}, {"timing", test.timing}};
  if (test.model) json["model"] = to_json(*test.model);
  for (const std::uint64_t seed : test.adapters) json["adapters"].push_back({{"seed", seed}});
  if (test.reward) json["reward"] = to_json(*test.reward);
  if (test.faults) json["faults"] = Json::parse(to_json(*test.faults));
  json["experiment"] = Json::parse(test.experiment.to_json());
  return json.dump();
}

}  // namespace vitro
