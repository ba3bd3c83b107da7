// Recordings as NumPy arrays, and arrays as recordings.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "engine/base/check.hpp"
#include "module.hpp"
#include "traces/recording.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

// One kind of entry: rows of (layer, expert, sequence, position).
class Keys {
 public:
  void add(const OutcomeKey& key) {
    rows_.insert(rows_.end(), {key.layer, key.expert, std::int64_t{key.at.sequence}, std::int64_t{key.at.position}});
  }
  py::array array() const { return Array<std::int64_t>({rows_.size() / 4, std::size_t{4}}, rows_.data()); }

 private:
  std::vector<std::int64_t> rows_;
};

template <typename T>
py::array array_of(const std::vector<T>& values) {
  return Array<T>(values.size(), values.data());
}

py::dict fired_arrays(const Recording& recording) {
  Keys keys;
  std::vector<std::int64_t> ends, looked_at;
  std::vector<std::uint32_t> ids;
  for (const auto& [key, fired] : recording.fired) {
    keys.add(key);
    ids.insert(ids.end(), fired.ids.begin(), fired.ids.end());
    ends.push_back(static_cast<std::int64_t>(ids.size()));
    // -1: not all from the first one on.
    const bool whole = fired.covered.size() == 1 && fired.covered.front().first == 0;
    looked_at.push_back(whole ? fired.covered.front().second : -1);
  }
  return py::dict(py::arg("keys") = keys.array(), py::arg("ends") = array_of(ends), py::arg("ids") = array_of(ids),
                  py::arg("looked_at") = array_of(looked_at));
}

py::dict expert_arrays(const Recording& recording) {
  Keys keys;
  std::vector<std::int64_t> ends;
  std::vector<std::uint32_t> ids;
  std::vector<float> weights;
  for (const auto& [key, choice] : recording.experts) {
    keys.add(key);
    ids.insert(ids.end(), choice.ids.begin(), choice.ids.end());
    weights.insert(weights.end(), choice.weights.begin(), choice.weights.end());
    ends.push_back(static_cast<std::int64_t>(ids.size()));
  }
  return py::dict(py::arg("keys") = keys.array(), py::arg("ends") = array_of(ends), py::arg("ids") = array_of(ids),
                  py::arg("weights") = array_of(weights));
}

py::dict token_arrays(const Recording& recording) {
  Keys keys;
  std::vector<std::int32_t> tokens;
  for (const auto& [key, token] : recording.tokens) {
    keys.add(key);
    tokens.push_back(token);
  }
  return py::dict(py::arg("keys") = keys.array(), py::arg("ids") = array_of(tokens));
}

py::dict recording_arrays(const std::string& path) {
  const Recording recording = Recording::load(path);
  return py::dict(py::arg("about") = recording.about, py::arg("fired") = fired_arrays(recording),
                  py::arg("experts") = expert_arrays(recording), py::arg("tokens") = token_arrays(recording));
}

OutcomeKey key_at(const Array<std::int64_t>& keys, py::ssize_t row) {
  const std::int64_t* k = keys.data(row);
  return {static_cast<std::int16_t>(k[0]), static_cast<std::int16_t>(k[1]),
          {static_cast<std::uint32_t>(k[2]), static_cast<std::uint32_t>(k[3])}};
}

// Requires: arrays as recording_arrays() gives them; Python has checked their shapes and ranges.
void write_recording(const std::string& path, const std::map<std::string, std::string>& about, const py::dict& fired,
                     const py::dict& experts, const py::dict& tokens) {
  Recording recording;
  recording.about = about;
  const auto keys = [](const py::dict& part) { return Array<std::int64_t>(part["keys"]); };
  const auto each = [](const py::dict& part, const Array<std::int64_t>& of, auto&& take) {
    const Array<std::int64_t> ends(part["ends"]);
    for (py::ssize_t row = 0, begin = 0; row < ends.size(); begin = ends.at(row), ++row) take(key_at(of, row), begin, ends.at(row), row);
  };
  const Array<std::uint32_t> neurons(fired["ids"]), chosen(experts["ids"]);
  const Array<std::int64_t> looked_at(fired["looked_at"]);
  each(fired, keys(fired), [&](const OutcomeKey& key, py::ssize_t begin, py::ssize_t end, py::ssize_t row) {
    FiredNeurons& entry = recording.fired[key];
    entry.ids.assign(neurons.data() + begin, neurons.data() + end);
    entry.cover(0, static_cast<std::uint32_t>(looked_at.at(row)));
  });
  const Array<float> weights(experts["weights"]);
  each(experts, keys(experts), [&](const OutcomeKey& key, py::ssize_t begin, py::ssize_t end, py::ssize_t) {
    ExpertChoice& choice = recording.experts[key];
    choice.ids.assign(chosen.data() + begin, chosen.data() + end);
    choice.weights.assign(weights.data() + begin, weights.data() + end);
  });
  const Array<std::int64_t> token_keys = keys(tokens);
  const Array<std::int32_t> ids(tokens["ids"]);
  for (py::ssize_t row = 0; row < ids.size(); ++row) recording.tokens[key_at(token_keys, row)] = ids.at(row);
  recording.save(path);
}

}  // namespace

void bind_recordings(py::module_& m) {
  Recording::convert_with([](const std::string& path) {
    const py::gil_scoped_acquire gil;
    try {
      return py::module_::import("vitro.trace.columnar").attr("engine_file")(path).cast<std::string>();
    } catch (const py::error_already_set& error) {
      throw ConfigError(py::str(error.value()).cast<std::string>());
    }
  });
  m.def("recording_arrays", &recording_arrays, py::arg("path"));
  m.def("write_recording", &write_recording, py::arg("path"), py::arg("about"), py::arg("fired"), py::arg("experts"), py::arg("tokens"));
}

}  // namespace vitro
