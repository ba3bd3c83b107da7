#include "policy_calls.hpp"

#include <fmt/format.h>

#include "engine/base/check.hpp"
#include "python_errors.hpp"

namespace py = pybind11;

namespace vitro {

void explain(const PolicyClass& policy, const py::error_already_set& error) {
  explain(fmt::format("the {} policy {}", policy.kind, policy.title), error);
}

void refuse(const PolicyClass& policy, std::string_view method, const py::handle& answer, std::string_view expected) {
  constexpr py::ssize_t kMost = 200;
  const py::str all = py::repr(answer);
  auto shown = py::cast<std::string>(all[py::slice(0, kMost, 1)]);
  if (py::len(all) > kMost) shown += "...";
  throw RunError(fmt::format("the {} policy {}: {}() returned {} (expected {})", policy.kind, policy.title, method, shown, expected));
}

std::uint32_t number_below(std::uint64_t end, const PolicyClass& policy, std::string_view method, const py::handle& answer,
                           std::string_view expected) {
  if (py::isinstance<py::bool_>(answer)) refuse(policy, method, answer, expected);  // a number to Python, an oversight to us
  const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(answer.ptr()));
  if (!whole) PyErr_Clear();
  int overflows = 0;
  const long long value = whole ? PyLong_AsLongLongAndOverflow(whole.ptr(), &overflows) : -1;
  if (!whole || overflows != 0 || value < 0 || static_cast<std::uint64_t>(value) >= end) refuse(policy, method, answer, expected);
  return static_cast<std::uint32_t>(value);
}

PolicyObject::PolicyObject(PolicyClassPtr type, const PolicyValues& values) : type_(std::move(type)) {
  const py::gil_scoped_acquire gil;
  try {
    object_ = type_->type();
    for (const auto& [name, value] : values) std::visit([&, name = name](auto number) { object_.attr(name) = py::cast(number); }, value);
    object_.attr("setup")();
  } catch (const py::error_already_set& error) {
    object_ = py::object();
    explain(*type_, error);
  }
  ++type_->objects;
}

}  // namespace vitro
