// Models, texts and recordings of what fired.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/check.hpp"
#include "engine/graph/operator_graph.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/gguf_extend.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/lora_merge.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/pretokeniser.hpp"
#include "engine/model/quantize.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/quant/blocks.hpp"
#include "model_files.hpp"
#include "module.hpp"
#include "traces/firing_statistics.hpp"

namespace py = pybind11;

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

// `spec`: {"floats": {key: [...]}, "booleans": {key: ...}, "tensors": [{"name", "dims", "format", "file"}, ...]}.
void extend(const std::string& src, const std::string& dst, const std::string& spec) {
  const Json added = Json::parse(spec);
  std::vector<std::pair<std::string, GgufValue>> values;
  for (const auto& [key, list] : added.at("floats").items()) {
    const auto numbers = list.get<std::vector<float>>();
    values.emplace_back(key, gguf_array(std::span(numbers)));
  }
  for (const auto& [key, value] : added.at("booleans").items()) values.emplace_back(key, value.get<bool>());
  std::vector<AddedTensor> tensors;
  for (const Json& tensor : added.at("tensors")) {
    const Format format = tensor.at("format").get<std::string>() == "f32" ? Format::f32 : Format::f16;
    tensors.push_back({tensor.at("name").get<std::string>(), tensor.at("dims").get<std::vector<std::uint64_t>>(), format,
                       tensor.at("file").get<std::string>()});
  }
  extend_gguf(src, dst, std::move(values), tensors);
}

std::vector<std::int32_t> tokenize(const std::string& model, const py::bytes& text) {
  return Tokenizer::from_gguf(Gguf::open(model))->encode(std::string(text));
}

// For the tests, which hold the scanners against the published regular expressions.
std::vector<py::bytes> pretokenise_text(const std::string& name, const py::bytes& text) {
  const std::optional<Pretokeniser> kind = pretokeniser_by_name(name);
  if (!kind) throw ConfigError("pretokenise: \"" + name + "\" is not known (expected one of: " + pretokeniser_names() + ")");
  const std::string bytes(text);
  std::vector<py::bytes> words;
  for (const std::string_view word : pretokenise(*kind, bytes)) words.emplace_back(word.data(), word.size());
  return words;
}

std::string firing_of(const std::string& recording, const std::string& model) {
  Json rows = Json::array();
  for (const LayerFiring& f : firing_statistics(Recording::load(recording), config_from_gguf(Gguf::open(model)).ffn)) {
    rows.push_back({{"layer", f.layer},
                    {"expert", f.expert},
                    {"tokens", f.tokens},
                    {"active", f.active},
                    {"hot_share", f.hot_share},
                    {"repeated", f.repeated},
                    {"skew", fitted_skew(f)}});
  }
  return rows.dump();
}

std::string tokens_of(const std::string& recording) {
  const TokenFiring f = token_statistics(Recording::load(recording));
  return Json{{"tokens", f.tokens},
              {"spread", f.spread},
              {"shared", f.shared},
              {"layers_alike", f.layers_alike},
              {"layer_spread", f.layer_spread},
              {"neighbours_alike", f.neighbours_alike},
              {"lasting", f.lasting},
              {"fresh", f.fresh},
              {"fresh_spread", f.fresh_spread}}
      .dump();
}

std::string graph_dot(const std::string& model, const std::string& fuse) {
  const auto found = std::ranges::find(kFuseNames, fuse);
  if (found == kFuseNames.end()) throw ConfigError("--fuse: \"" + fuse + "\" is unknown (expected none, geometry or all)");
  std::ostringstream out;
  write_dot(out, build_graph(config_from_gguf(Gguf::open(model)), {.fuse = static_cast<Fuse>(found - kFuseNames.begin())}));
  return out.str();
}

// `format`: of what is merged; empty: each matrix its own.
// `embedding`, `output`: names of formats, or "".
void quantize_file(const std::string& src, const std::string& dst, const std::string& scheme, const std::string& embedding,
                   const std::string& output) {
  const auto format = [](std::string_view option, const std::string& name) {
    return name.empty() ? std::nullopt : std::optional(written_format(option, name));
  };
  quantize(src, dst, scheme, {.vocabulary = {format("--embedding", embedding), format("--output", output)}});
}

void merge(const std::string& base, const std::string& adapter, const std::string& out, double strength, const std::string& format) {
  LoraMerge merge{base, adapter, out, strength, format_by_name(format)};
  if (!format.empty() && (!merge.format || !can_quantise(*merge.format))) {
    throw ConfigError("--format: \"" + format + "\" is no format that can be made (expected one such as f16, q8_0 or q4_0)");
  }
  merge_lora(merge);
}

}  // namespace

void bind_models(py::module_& m) {
  const auto free_gil = py::call_guard<py::gil_scoped_release>();
  m.def("extend_gguf", &extend, py::arg("src"), py::arg("dst"), py::arg("spec"), free_gil);
  m.def("tokenize", &tokenize, py::arg("model"), py::arg("text"));
  m.def("pretokenise", &pretokenise_text, py::arg("pattern"), py::arg("text"));
  m.def("quantize", &quantize_file, py::arg("src"), py::arg("dst"), py::arg("scheme"), py::arg("embedding"), py::arg("output"), free_gil);
  m.def("merge_lora", &merge, py::arg("base"), py::arg("adapter"), py::arg("out"), py::arg("strength"), py::arg("format"), free_gil);
  m.def("weight_error", &weight_error_text, py::arg("path"), py::arg("reference"), free_gil);
  m.def("pack", &pack_text, py::arg("src"), py::arg("dst"), py::arg("layout"), py::arg("order"), free_gil);
  m.def("verify_packed", &verify_packed, py::arg("path"), free_gil);
  m.def("firing_statistics", &firing_of, py::arg("recording"), py::arg("model"), free_gil);
  m.def("token_statistics", &tokens_of, py::arg("recording"), free_gil);
  m.def("quantize_schemes", [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const QuantizeScheme& scheme : quantize_schemes()) out.emplace_back(scheme.name, scheme.what);
    return out;
  });
  m.def("graph_dot", &graph_dot, py::arg("model"), py::arg("fuse") = "all");
}

}  // namespace vitro
