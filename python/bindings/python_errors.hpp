// Exceptions of classes that users write in Python, as the engine's own.
#pragma once
#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <string>

#include "engine/base/check.hpp"
#include "engine/base/config.hpp"

namespace vitro {

// vitro.ConfigError stays one, any other exception is a RunError with the Python traceback. who: "the eviction policy Mine". Requires: the
// GIL.
[[noreturn]] inline void explain(const std::string& who, const pybind11::error_already_set& error) {
  namespace py = pybind11;
  if (error.matches(py::module_::import("vitro.errors").attr("ConfigError"))) throw ConfigError(py::str(error.value()));
  // There is no traceback where nothing of the class ran, as with arguments that a method does not take.
  const py::object trace = error.trace() ? error.trace() : py::none();
  const py::object lines = py::module_::import("traceback").attr("format_exception")(error.type(), error.value(), trace);
  throw RunError(fmt::format("{} failed:\n{}", who, py::cast<std::string>(py::str("").attr("join")(lines))));
}

}  // namespace vitro
