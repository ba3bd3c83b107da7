// Devices and their probes, and the lists of what there is.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "describe.hpp"
#include "engine/app/old_engine_keys.hpp"
#include "engine/base/check.hpp"
#include "engine/base/path.hpp"
#include "engine/kernels/common/kernel_set.hpp"
#include "engine/kernels/common/register_tile.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/register_parts.hpp"
#include "module.hpp"
#include "probe.hpp"
#include "python_models.hpp"
#include "python_policies.hpp"
#include "sim/characterize/characterize.hpp"
#include "sim/characterize/cross_fidelity.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

Node device_tree(const std::string& device) { return device.starts_with("{") ? parse_json(device, "device") : load_yaml(device); }

// A device file as a tree of its own: the paths of its plug-ins are absolute.
std::string load_device(const std::string& path) {
  Node device = with_absolute_paths(load_yaml(path), "plugin");
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

void add_kernels(Json& rows) {
  for (const VariantId id : {variant::kFloat, variant::kInt8, variant::kInt8Tables, variant::kInt16Tables, variant::kInt8Rows,
                             variant::kHmx, variant::kA16, variant::kHalfSums, variant::kLutExp, variant::kExpF16, variant::kExpF32,
                             variant::kReference}) {
    rows.push_back({{"name", variant::name(id)}, {"description", std::string("numeric contract: ") + std::string(variant::describe(id))}});
  }
  const std::string_view fastest = kernel_sets().back()->name;
  for (const KernelSet* set : kernel_sets()) {
    rows.push_back({{"name", set->name},
                    {"description", std::string("instruction set of this machine") + (set->name == fastest ? ", used by default" : "")}});
  }
  rows.push_back({{"name", "lut"},
                  {"description",
                   "int8 products of few-bit codes by look-up, on the fastest instruction set; lut_w1 to "
                   "lut_w4 ask for a matrix of that width"}});
  rows.push_back({{"name", "dot"}, {"description", "int8 products by dot product alone, on the fastest instruction set"}});
}

template <class Parts>
void add_parts(Json& rows, const Parts& parts) {
  for (const auto& part : parts) rows.push_back({{"name", part.name}, {"description", part.description}});
}

std::string list(const std::string& kind, const std::string& root) {
  using Add = std::function<void(Json&)>;
  const std::vector<std::pair<std::string_view, Add>> kinds{
      {"devices", [&](Json& rows) { rows = list_devices(root + "/configs/devices"); }},
      {"policies", [](Json& rows) { add_parts(rows, policies()); }},
      {"weights", [](Json& rows) { add_parts(rows, weights_kinds().all()); }},
      {"ffns", [](Json& rows) { add_parts(rows, ffn_kinds().all()); }},
      {"placements", [](Json& rows) { add_parts(rows, placement_kinds().all()); }},
      {"evictions", [](Json& rows) { add_parts(rows, evictions().all()); }},
      {"kv_keeps", [](Json& rows) { add_parts(rows, kv_keep_rules().all()); }},
      {"drifts", [](Json& rows) { add_parts(rows, drift_rules().all()); }},
      {"look_aheads", [](Json& rows) { add_parts(rows, look_ahead_rules().all()); }},
      {"expert_places", [](Json& rows) { add_parts(rows, place_rules().all()); }},
      {"kernels", add_kernels},
      {"plugins", [&](Json& rows) { rows = list_plugins(root + "/configs/devices"); }}};
  const auto found = std::ranges::find(kinds, kind, &std::pair<std::string_view, Add>::first);
  if (found == kinds.end()) {
    throw ConfigError(
        "list: \"" + kind +
        "\" is not known (expected devices, models, policies, weights, ffns, placements, evictions, kv_keeps, drifts, look_aheads, "
        "expert_places, kernels or plugins)");
  }
  Json rows = Json::array();
  found->second(rows);
  return rows.dump();
}

// What the solver chooses for each instruction, in each reading of its equations, for a product of this shape.
std::string tiles(std::uint64_t e, std::uint64_t h, std::uint64_t l) {
  const ProductShape shape{e, h, l};
  Json rows = Json::array();
  for (const DotInstruction& i : dot_instructions()) {
    for (const Counting counting : kCountings) {
      for (const std::uint32_t sums : {1u, 2u}) {
        Json row{{"instruction", i.name},
                 {"kernel_set", i.kernel_set},
                 {"registers", i.registers},
                 {"register_bits", i.register_bits},
                 {"kind", i.kind},
                 {"source", i.source},
                 {"counting", to_string(counting)},
                 {"meaning", describe(counting)},
                 {"sums", sums},
                 {"tile", nullptr},
                 {"filled", nullptr},
                 {"before", accesses_untiled(i, counting, shape)},
                 {"after", nullptr}};
        if (const auto tile = solve_tile(i, {counting, sums}, shape)) {
          row["tile"] = {tile->e, tile->h, tile->l};
          row["filled"] = registers_of(i, {counting, sums}, *tile);
          row["after"] = accesses_tiled(i, counting, *tile, shape);
        }
        rows.push_back(std::move(row));
      }
    }
  }
  return rows.dump();
}

}  // namespace

void bind_devices(py::module_& m) {
  const auto free_gil = py::call_guard<py::gil_scoped_release>();
  bind_model_types(m);
  bind_policy_types(m);
  m.def("load_device", &load_device, py::arg("path"));
  m.def("device_parameters", &device_parameters, py::arg("device"), py::arg("models") = py::list());
  m.def("characterize_probe", &characterize_probe, py::arg("device"), py::arg("probe"), py::arg("args"), free_gil);
  m.def("cross_fidelity_plan", &cross_fidelity_plan, py::arg("device"), free_gil);
  m.def("cross_fidelity", &cross_fidelity, py::arg("device"), py::arg("part"), py::arg("name"), free_gil);
  m.def("probe", &run_probe_text, py::arg("kind"), py::arg("args"), free_gil);
  m.def("tiles", &tiles, py::arg("e"), py::arg("h"), py::arg("l"));
  m.def("list", &list, py::arg("kind"), py::arg("root") = "");
}

}  // namespace vitro
