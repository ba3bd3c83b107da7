#include "model_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/check.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/neuron_order.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/quantize.hpp"
#include "traces/firing_statistics.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

// The order that a file asks for: a recording's, hottest first, or that of a neuron index of PowerInfer.
NeuronOrder read_order(const std::string& path, const ModelConfig& config) {
  if (!Recording::is_recording(path)) return read_gpuidx(path, config);
  std::vector<std::vector<std::uint32_t>> places(std::size_t{config.layers} * std::max(config.experts, 1u));
  for (const LayerFiring& f : firing_statistics(Recording::load(path), config.ffn)) {
    const auto expert = static_cast<std::size_t>(std::max<int>(f.expert, 0));
    const std::size_t ffn = static_cast<std::size_t>(f.layer) * std::max(config.experts, 1u) + expert;
    if (ffn >= places.size()) throw ConfigError(fmt::format("{}: is a recording of another model", path));
    places[ffn] = hottest_first(f);
  }
  // An expert that nobody chose stays as it is.
  for (auto& ids : places) {
    for (std::uint32_t id = 0; ids.size() < config.ffn; ++id) ids.push_back(id);
  }
  return NeuronOrder(std::move(places), config, path);
}

}  // namespace

std::string pack_text(const std::string& src, const std::string& dst, const std::string& layout, const std::string& order) {
  const Gguf gguf = Gguf::open(src);
  PackOptions options = pack_options_of(layout);
  if (!order.empty()) options.order = read_order(order, config_from_gguf(gguf));
  const PackedModel packed = pack_to(gguf, options, dst);
  Json tensors = Json::array();
  for (const Weight& w : packed.weights) {
    Json row{{"name", w.name},
             {"role", to_string(w.role)},
             {"layer", w.layer},
             {"format", to_string(w.format)},
             {"layout", to_string(w.layout)},
             {"rows", w.rows},
             {"columns", w.columns},
             {"experts", w.experts},
             {"offset", w.extent.offset},
             {"bytes", round_up(w.extent.length, kPageSize)},
             {"weight_bytes", w.payload_bytes()}};
    if (w.role == Role::ffn_bundle) {
      const BundleLayout bundles = w.bundles();
      row["layout"] = to_string(w.form);
      row["block_bytes"] = bundles.block;
      row["bundles_per_block"] = bundles.per_block;
      row["first_part_bytes"] = bundles.first_part;
    }
    tensors.push_back(std::move(row));
  }
  return Json{{"path", packed.path}, {"bytes", packed.size}, {"ordered", !packed.order.empty()}, {"tensors", tensors}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

std::string weight_error_text(const std::string& path, const std::string& reference) {
  const WeightError error = weight_error(path, reference);
  return Json{{"relative", error.relative}, {"bits_per_weight", error.bits_per_weight}}.dump();
}

}  // namespace vitro
