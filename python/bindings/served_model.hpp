// A device model whose class is Python (python_models.hpp), as C++ calls it: with the GIL held, and an exception told as ours.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/units.hpp"
#include "hw_models/params.hpp"

namespace vitro {

// Values of one block: times as picoseconds, bytes as whole numbers, the rest as SI floats. Reading one counts as use.
struct SeenParams {
  const hw::Params* params;
  pybind11::object at(const std::string& key) const;
};

// One class. Its texts outlive the entry's table, which points into them.
struct ModelClass {
  pybind11::object type;
  std::string name;
  std::deque<std::string> texts;

  ~ModelClass() {
    const pybind11::gil_scoped_acquire gil;
    type = pybind11::object();
  }
  std::string_view keep(const pybind11::handle& text) { return texts.emplace_back(pybind11::cast<std::string>(text)); }
};
using ModelClassPtr = std::shared_ptr<ModelClass>;

// The Python object behind a model.
class Served {
 public:
  Served(const hw::Params& params, ModelClassPtr type);

  // When the model says that the request is served.
  template <class Request>
  Picoseconds serve(Picoseconds now, const Request& request) {
    const pybind11::gil_scoped_acquire gil;
    return answer(now, pybind11::cast(request));
  }

  // What another method answers.
  template <class T, class... Args>
  T ask(const char* method, const Args&... args) {
    const pybind11::gil_scoped_acquire gil;
    try {
      const pybind11::object answer = held_.object.attr(method)(args...);
      if (answer.is_none()) refuse(method, answer);  // a forgotten `return` is no False
      try {
        return pybind11::cast<T>(answer);
      } catch (const pybind11::cast_error&) {
        refuse(method, answer);
      }
    } catch (const pybind11::error_already_set& error) {
      failed(error);
    }
  }

 private:
  [[noreturn]] void refuse(const char* method, const pybind11::object& answer) const;
  [[noreturn]] void failed(const pybind11::error_already_set& error) const;
  Picoseconds answer(Picoseconds now, const pybind11::object& request);

  struct Held {  // let go with the GIL held, also when the constructor ends in an exception
    pybind11::object object, serve;
    ~Held() {
      const pybind11::gil_scoped_acquire gil;
      serve = object = pybind11::object();
    }
  };

  ModelClassPtr type_;
  Held held_;
};

}  // namespace vitro
