#include "describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "hw_models/tlm/loader.hpp"
#include "sim/soc.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

std::set<std::filesystem::path> device_files(const std::string& folder) {
  std::set<std::filesystem::path> paths;
  if (!std::filesystem::is_directory(folder)) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") paths.insert(entry.path());
  }
  return paths;
}

std::string_view si_unit(Dimension dimension) {
  switch (dimension) {
    case Dimension::time:
      return "s";
    case Dimension::bytes:
      return "B";
    case Dimension::bandwidth:
      return "B/s";
    case Dimension::frequency:
      return "Hz";
    case Dimension::power:
      return "W";
    case Dimension::energy:
      return "J";
    case Dimension::energy_per_byte:
      return "J/B";
    case Dimension::temperature:
      return "K";
    case Dimension::none:
    case Dimension::ratio:
      return "";
  }
  return "";
}

}  // namespace

Json list_devices(const std::string& folder) {
  Json rows = Json::array();
  for (const auto& path : device_files(folder)) {
    Json row{{"name", path.stem().string()}, {"path", path.string()}};
    try {
      const sim::DeviceSummary device = sim::summarise_device(load_yaml(path.string()));
      row["description"] = device.description;
      for (const auto& [name, count] : device.processors) row["processors"][name] = count;
      row["dram_capacity_bytes"] = device.dram_capacity;
      for (const auto& [kind, count] : device.parameters_by_kind) row["parameters"][kind] = count;
    } catch (const ConfigError& error) {
      row["description"] = error.what();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json list_plugins(const std::string& folder) {
  std::vector<hw::PluginRef> refs = hw::plugins_of(Node());
  for (const auto& path : device_files(folder)) {
    try {
      for (hw::PluginRef& ref : hw::plugins_of(load_yaml(path.string()))) refs.push_back(std::move(ref));
    } catch (const ConfigError&) {
      continue;  // `list devices` says what is wrong with it
    }
  }
  Json rows = Json::array();
  std::set<std::string> seen;
  for (const hw::PluginRef& ref : refs) {
    if (!seen.insert(ref.path).second) continue;
    Json row{{"name", std::filesystem::path(ref.path).stem().string()}, {"path", ref.path}};
    try {
      if (const std::optional<hw::TlmModules> modules = hw::tlm_modules(ref)) {
        row["name"] = modules->name;
        row["description"] = fmt::format("{}; for `model: {}` of a block with `plugin:`, with {}", modules->description,
                                         fmt::join(modules->models, "`, `"), fmt::join(modules->keys, ", "));
        rows.push_back(std::move(row));
        continue;
      }
      hw::Registry registry = hw::builtin_models();  // a new one each: two plug-ins may offer the same name to two devices
      const hw::Plugin plugin = hw::load_plugin(registry, ref);
      std::vector<std::string> models;
      for (const hw::Registry::Row& model : plugin.models) {
        models.push_back(model.name);
        row["models"].push_back({{"name", model.name}, {"description", model.description}});
      }
      row["name"] = plugin.name;
      row["description"] = fmt::format("{}; adds {}", plugin.description, fmt::join(models, ", "));
    } catch (const ConfigError& error) {
      row["description"] = error.what();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json describe_parameters(const Node& device, const hw::AddModels& add_models) {
  Json rows = Json::array();
  const auto add = [&rows](const std::string& name, const Json& value, std::string_view unit, std::string kind, std::string source) {
    if (source.starts_with("default")) {
      kind = "default";
      source = source.substr(source.find(' ') + 1);
    }
    rows.push_back({{"parameter", name}, {"value", value}, {"unit", unit}, {"kind", kind}, {"source", source}});
  };
  sim::visit_parameters(device, add_models, [&add](const hw::Params& params) {
    for (const hw::Param& param : params.all()) {
      if (param.word.empty()) {
        add(param.name, param.value, si_unit(param.dimension), std::string(to_string(param.kind)), param.source);
      } else {
        add(param.name, param.word, "", "choice", param.source);
      }
    }
    for (const auto& [key, table] : params.tables()) {
      for (const auto& [name, value] : table.values)
        add(table.name + "." + name, value, "", std::string(to_string(table.kind)), table.source);
    }
  });
  return rows;
}

}  // namespace vitro
