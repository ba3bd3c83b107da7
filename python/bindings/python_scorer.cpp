#include "python_scorer.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace vitro {
namespace {

struct Callable {
  py::object function;
  explicit Callable(py::object f) : function(std::move(f)) {}
  ~Callable() {
    const py::gil_scoped_acquire gil;
    function = py::object();
  }
};

// Models may generate bytes that are no UTF-8.
py::str text_of(const std::string& bytes) {
  return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

double ask(const Callable& callable, const Sample& sample) {
  const py::gil_scoped_acquire gil;
  try {
    return callable
        .function(py::arg("text") = text_of(sample.text), py::arg("tokens") = sample.tokens,
                  py::arg("log_probability") = sample.log_probability, py::arg("ended") = sample.ended)
        .cast<double>();
  } catch (const py::error_already_set& error) {
    throw RunError(fmt::format("the scorer failed: {}", error.what()));
  } catch (const py::cast_error&) {
    throw RunError("the scorer failed: its answer is not a number");
  }
}

}  // namespace

ScoreFunction python_scorer(const py::object& scorer) {
  if (scorer.is_none()) return {};
  return [callable = std::make_shared<Callable>(scorer)](const Sample& sample) { return ask(*callable, sample); };
}

}  // namespace vitro
