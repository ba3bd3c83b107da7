// Torture: cases of configurations and faults, run in child processes, and shrunk.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <nlohmann/json.hpp>

#include "engine/torture/torture.hpp"
#include "module.hpp"
#include "sim/machines.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

TortureOptions options_of(const std::string& folder, double limit_s) {
  TortureOptions options;
  options.folder = folder;
  options.machines = sim::make_machine;
  options.limit_s = limit_s;
  return options;
}

// A device may be named by its file.
TortureCase case_of(const std::string& text, const std::string& name) {
  TortureCase test = torture_case(parse_json(text, name));
  if (const Node* device = test.experiment.find("device"); device != nullptr && device->is_scalar()) {
    test.experiment.set("device", load_yaml(device->text()));
  }
  return test;
}

std::string run_one(const std::string& test, const std::string& name, const std::string& folder, double limit_s) {
  const Verdict verdict = run_case(case_of(test, name), options_of(folder, limit_s));
  Json fired = Json::object();
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
    if (verdict.tally.fired[kind] > 0) fired[std::string(to_string(static_cast<FaultKind>(kind)))] = verdict.tally.fired[kind];
  }
  const Json ran = Json::parse(to_json(verdict.test));
  const Json said{{"outcome", to_string(verdict.outcome)}, {"why", verdict.why}, {"fired", fired}, {"case", ran},
                  {"shadow", {{"reads", verdict.seen.reads}, {"operands", verdict.seen.operands}, {"decisions", verdict.seen.decisions}}}};
  return said.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shrink_one(const std::string& test, const std::string& name, const std::string& folder, double limit_s) {
  return to_json(shrink(case_of(test, name), options_of(folder, limit_s)));
}

}  // namespace

void bind_torture(py::module_& m) {
  const auto free_gil = py::call_guard<py::gil_scoped_release>();
  m.def("torture", &run_one, py::arg("test"), py::arg("name"), py::arg("folder"), py::arg("limit_s"), free_gil);
  m.def("shrink_torture", &shrink_one, py::arg("test"), py::arg("name"), py::arg("folder"), py::arg("limit_s"), free_gil);
  m.def("fault_names", &fault_names);
  m.def("harmless_faults", [] {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kFaultKinds; ++i) {
      if (const auto kind = static_cast<FaultKind>(i); is_harmless(kind)) names.emplace_back(to_string(kind));
    }
    return names;
  });
}

}  // namespace vitro
