#include "served_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "python_errors.hpp"

namespace py = pybind11;

namespace vitro {

py::object SeenParams::at(const std::string& key) const {
  const auto& all = params->all();
  const std::string name = params->path() + "." + key;
  const auto found = std::find_if(all.begin(), all.end(), [&name](const hw::Param& param) { return param.name == name; });
  if (found == all.end()) throw py::key_error(key);
  switch (found->dimension) {
    case Dimension::time:
      return py::int_(params->time(key).count());
    case Dimension::bytes:
      return py::int_(params->bytes(key));
    case Dimension::bandwidth:
      return py::float_(params->bandwidth(key).value);
    case Dimension::frequency:
      return py::float_(params->frequency(key).value);
    case Dimension::ratio:
      return py::float_(params->ratio(key));
    default:
      return py::float_(params->number(key));
  }
}

Served::Served(const hw::Params& params, ModelClassPtr type) : type_(std::move(type)) {
  const py::gil_scoped_acquire gil;
  try {
    held_.object = type_->type();
    held_.object.attr("params") = SeenParams{&params};
    held_.object.attr("setup")();
    held_.serve = held_.object.attr("serve");
  } catch (const py::error_already_set& error) {
    explain("the device model " + type_->name, error);
  }
}

void Served::refuse(const char* method, const py::object& answer) const {
  throw RunError(fmt::format("the device model {}: {}() returned {}, which is none of what it may (docs/guide/plugins.md)", type_->name,
                             method, py::cast<std::string>(py::repr(answer))));
}

void Served::failed(const py::error_already_set& error) const { explain("the device model " + type_->name, error); }

Picoseconds Served::answer(Picoseconds now, const py::object& request) {
  try {
    const py::object answer = held_.serve(now.count(), request);
    const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(answer.ptr()));
    if (!whole) PyErr_Clear();
    if (!whole || py::cast<std::int64_t>(whole) < now.count()) {
      throw RunError(
          fmt::format("the device model {}: serve() returned {} at {} ps (expected a whole number of picoseconds, not before that)",
                      type_->name, py::cast<std::string>(py::repr(answer)), now.count()));
    }
    return Picoseconds(py::cast<std::int64_t>(whole));
  } catch (const py::error_already_set& error) {
    explain("the device model " + type_->name, error);
  }
}

}  // namespace vitro
