// Quantities with units, as configuration files have them: the engine's parser, for Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/base/units.hpp"
#include "module.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

Dimension dimension_of(const std::string& name) {
  constexpr std::pair<std::string_view, Dimension> kNames[] = {
      {"none", Dimension::none},           {"time", Dimension::time},           {"bytes", Dimension::bytes},   {"power", Dimension::power},
      {"bandwidth", Dimension::bandwidth}, {"frequency", Dimension::frequency}, {"energy", Dimension::energy}, {"ratio", Dimension::ratio}};
  for (const auto& [known, dimension] : kNames) {
    if (known == name) return dimension;
  }
  throw ConfigError("\"" + name + "\" is not a dimension of a quantity (expected one such as bytes, time, bandwidth or ratio)");
}

std::optional<double> parse(const std::string& text, const std::string& dimension) {
  double value = 0;
  if (!parse_quantity(text, dimension_of(dimension), value)) return std::nullopt;
  return value;
}

}  // namespace

void bind_quantities(py::module_& m) {
  m.def("parse_quantity", &parse, py::arg("text"), py::arg("dimension"));
  m.def(
      "format_quantity", [](double value, const std::string& dimension) { return format_quantity(value, dimension_of(dimension)); },
      py::arg("value"), py::arg("dimension"));
  m.def(
      "describe_dimension", [](const std::string& dimension) { return std::string(describe(dimension_of(dimension))); },
      py::arg("dimension"));
}

}  // namespace vitro
