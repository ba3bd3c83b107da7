#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>

#include "engine/app/experiment.hpp"
#include "engine/app/old_engine_keys.hpp"
#include "engine/app/plan.hpp"
#include "engine/base/no_code.hpp"
#include "engine/base/path.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;

std::string resolve(const Node& value, std::string_view name, const std::string& base) {
  const fs::path p(shipped_path(value.text(), value.origin(), name));
  return (p.is_absolute() ? p : fs::path(base) / p).lexically_normal().string();
}

std::string directory_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// Files that a part may name, by dotted key within the part.
constexpr std::pair<std::string_view, std::string_view> kPaths[] = {{"model", "gguf"},
                                                                    {"model", "pack"},
                                                                    {"engine", "replay"},
                                                                    {"engine", "record"},
                                                                    {"engine", "kv.scratch"},
                                                                    {"engine", "plan"},
                                                                    {"engine", "moe.calibration"},
                                                                    {"engine", "ffn.experts.calibration"},
                                                                    {"workload", "save_kv"},
                                                                    {"workload", "restore_kv"},
                                                                    {"workload", "scaling.scorer.gguf"}};

// The folder of the file that has a value, which may be an included one; of a value that is in no file, the given one.
std::string folder_of(const Node& value, const std::string& otherwise) {
  const std::shared_ptr<const std::string>& file = value.origin().file;
  if (!file || !fs::is_regular_file(*file)) return otherwise;
  const std::string folder = directory_of(*file);
  return folder.empty() ? "." : folder;
}

void resolve_paths(std::string_view key, Node& part, const std::string& base) {
  for (const auto& [section, name] : kPaths) {
    if (section != key) continue;
    const Node* value = part.find_path(name);
    if (value == nullptr || !value->is_scalar()) continue;
    part.set_path(name, Node::scalar(resolve(*value, name, folder_of(*value, base)), value->origin(), true));
  }
}

Node load_part(std::string_view key, const Node& value, const std::string& base) {
  Node part = value;
  std::string directory = base;
  if (value.is_scalar()) {
    const std::string path = resolve(value, key, folder_of(value, base));
    if (key == "model" && path.ends_with(".gguf")) {
      return Node::map({{"gguf", Node::scalar(path, value.origin(), true)}}, value.origin());
    }
    if (!fs::is_regular_file(path)) {
      fail_at(value.origin(), key,
              fmt::format("\"{}\" is not a file (looked for {}; paths start at the file that names them)", value.text(), path));
    }
    part = load_yaml(path);
    directory = directory_of(path);
  }
  resolve_paths(key, part, directory);
  return key == "engine" ? canonical_engine(part) : part;
}

// Takes `@file:line` and the line's end off the front of `text`, if they are there.
Origin take_place(std::string_view& text) {
  const std::size_t end = text.starts_with('@') ? text.find('\n') : text.npos;
  const std::size_t colon = text.substr(0, end).rfind(':');
  int line = 0;
  if (end == text.npos || colon == text.npos) return {};
  if (std::from_chars(&text[colon + 1], &text[end], line).ptr != &text[end] || line < 1) return {};
  const Origin place{std::make_shared<const std::string>(text.substr(1, colon - 1)), line};
  text.remove_prefix(end + 1);
  return place;
}

// A key, and a value that knows where it was written, for messages and for paths in it.
Node::Entry read_override(std::string_view text) {
  const Origin place = take_place(text);
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    throw ConfigError(fmt::format("--set {}: expected key=value, such as memory.ffn_in_dram=25%", text));
  }
  const std::string key(text.substr(0, equals));
  const std::string value(text.substr(equals + 1));
  if (!place.file) return {key, parse_yaml(value, fmt::format("--set {}", key))};
  // Lines before the value put it on its own.
  return {key, parse_yaml(std::string(static_cast<std::size_t>(place.line - 1), '\n') + value, *place.file)};
}

void apply_override(Node& experiment, std::string_view text) {
  auto [key, value] = read_override(text);
  const std::string here = fs::current_path().string();
  for (const char* part : {"device", "model", "engine", "workload", "faults"}) {
    if (key == part && !value.is_null()) value = load_part(part, value, here);
    for (const auto& [section, name] : kPaths) {
      if (section == part && key == fmt::format("{}.{}", section, name) && value.is_scalar()) {
        value = Node::scalar(resolve(value, name, folder_of(value, here)), value.origin(), true);
      }
    }
  }
  if (key.starts_with("engine.")) {
    Node engine = experiment.find("engine") != nullptr ? *experiment.find("engine") : Node::map({}, value.origin());
    set_engine_key(engine, key.substr(7), value);
    experiment.set("engine", std::move(engine));
  } else {
    experiment.set_path(key, std::move(value));
  }
  // budget and share exclude each other: the one that is set last counts.
  const auto drop = [&](std::string_view other) {
    if (experiment.find_path(other) != nullptr) experiment.set_path(other, Node());
  };
  if (key == "memory.budget") drop("memory.ffn_in_dram");
  if (key == "memory.ffn_in_dram") drop("memory.budget");
}

// Plug-ins serve the device: those that the experiment names join its own, as absolute paths, since what is composed
// here is read again elsewhere.
void gather_plugins(Node& experiment) {
  if (const Node* parts = experiment.find_path("engine.plugins"); parts != nullptr && parts->is_list()) {
    std::vector<Node> absolute;
    for (const Node& item : parts->items()) {
      absolute.push_back(item.is_scalar() ? Node::scalar(path_named_by(item), item.origin(), true) : item);
    }
    experiment.set_path("engine.plugins", Node::list(std::move(absolute), parts->origin()));
  }
  std::vector<Node> paths;
  const Node* own = experiment.find("plugins");
  Node device = experiment.find("device") != nullptr ? *experiment.find("device") : Node();
  if (device.is_map()) experiment.set("device", device = with_absolute_paths(device, "plugin"));  // of single blocks
  for (const Node* list : {device.find("plugins"), own}) {
    if (list == nullptr || list->is_null()) continue;
    if (!list->is_list()) fail_at(list->origin(), "plugins", "is not a list (expected paths of shared objects)");
    for (const Node& item : list->items()) {
      paths.push_back(item.is_scalar() ? Node::scalar(path_named_by(item), item.origin(), true) : item);
    }
  }
  if (own != nullptr) {
    if (!device.is_map()) fail_at(own->origin(), "plugins", "has no device to serve (expected `device:` beside it)");
    std::vector<Node::Entry> rest;
    std::copy_if(experiment.entries().begin(), experiment.entries().end(), std::back_inserter(rest),
                 [](const Node::Entry& entry) { return entry.first != "plugins"; });
    experiment = Node::map(std::move(rest), experiment.origin());
  }
  if (paths.empty()) return;
  device.set("plugins", Node::list(std::move(paths)));
  experiment.set("device", std::move(device));
}

// The files of adapters as absolute paths, for the same reason.
void resolve_adapters(Node& experiment) {
  const Node* adapters = experiment.find_path("engine.lora.adapters");
  if (adapters == nullptr || !adapters->is_list()) return;
  std::vector<Node> resolved;
  for (Node adapter : adapters->items()) {
    if (const Node* file = adapter.find("file"); file != nullptr && file->is_scalar()) {
      adapter.set("file", Node::scalar(path_named_by(*file), file->origin(), true));
    }
    resolved.push_back(std::move(adapter));
  }
  experiment.set_path("engine.lora.adapters", Node::list(std::move(resolved), adapters->origin()));
}

// The shapes of a reward model that stand in a file of their own.
void place_judge(Node& experiment) {
  constexpr std::string_view kShape = "workload.scaling.scorer.shape";
  const Node* const shape = experiment.find_path(kShape);
  if (shape != nullptr && shape->is_scalar()) experiment.set_path(kShape, load_yaml(path_named_by(*shape)));
}

}  // namespace

Node compose_experiment(const Node& root, const std::string& base_directory, const std::vector<std::string>& overrides,
                        const std::string& machine) {
  if (!root.is_map()) fail_at(root.origin(), "", "an experiment is a map of keys (expected `experiment:`, `model:`, `workload:` ...)");
  Node out = root;
  for (const char* key : {"device", "model", "engine", "workload", "faults"}) {
    if (const Node* part = out.find(key)) out.set(key, load_part(key, *part, base_directory));
  }
  for (const std::string& text : overrides) apply_override(out, text);
  if (!machine.empty()) out.set("machine", Node::scalar(machine, {std::make_shared<const std::string>("--machine"), 1}));
  refuse_code_in(out);
  gather_plugins(out);
  resolve_adapters(out);
  place_judge(out);
  apply_plan(out);
  return out;
}

Node load_experiment(const std::string& path, const std::vector<std::string>& overrides, const std::string& machine) {
  const std::string directory = directory_of(path);
  return compose_experiment(load_yaml(path), directory.empty() ? "." : directory, overrides, machine);
}

}  // namespace vitro
