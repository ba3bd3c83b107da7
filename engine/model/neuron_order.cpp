#include "engine/model/neuron_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/model/gguf.hpp"

namespace vitro {
namespace {

std::vector<std::int32_t> read_ids(const Gguf& file, const TensorInfo& tensor) {
  std::vector<std::int32_t> values(tensor.size / sizeof(std::int32_t));
  file.read(tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<std::uint32_t> hot_first(const Gguf& file, std::uint32_t layer, std::uint32_t neurons) {
  const std::string name = fmt::format("blk.{}.gpu_idx", layer);
  const TensorInfo* tensor = file.find_tensor(name);
  if (tensor == nullptr) file.fail(name, "the tensor is missing");
  const std::vector<std::int32_t> hot = read_ids(file, *tensor);
  if (hot.size() != neurons) file.fail(name, fmt::format("{} neurons (expected the model's {})", hot.size(), neurons));
  std::vector<std::uint32_t> order(neurons);
  for (std::uint32_t i = 0; i < neurons; ++i) {
    if (hot[i] != 0 && hot[i] != 1) file.fail(name, fmt::format("entry {} is {} (expected 0 or 1)", i, hot[i]));
    order[i] = i;
  }
  const auto cold = std::stable_partition(order.begin(), order.end(), [&](std::uint32_t id) { return hot[id] == 1; });
  const std::string bucket_name = fmt::format("blk.{}.gpu_bucket", layer);
  if (const TensorInfo* bucket = file.find_tensor(bucket_name)) {
    const std::vector<std::int32_t> ids = read_ids(file, *bucket);
    if (!std::equal(ids.begin(), ids.end(), order.begin(), cold, std::cmp_equal<std::int32_t, std::uint32_t>)) {
      file.fail(bucket_name, "has other neurons than gpu_idx marks");
    }
  }
  return order;
}

}  // namespace

NeuronOrder::NeuronOrder(std::vector<std::vector<std::uint32_t>> places, const ModelConfig& config, const std::string& where)
    : places_(std::move(places)), experts_(std::max(config.experts, 1u)) {
  const std::size_t ffns = std::size_t{config.layers} * experts_;
  if (places_.size() != ffns) throw ConfigError(fmt::format("{}: orders for {} FFNs (expected {})", where, places_.size(), ffns));
  std::vector<bool> seen(config.ffn);
  for (std::size_t i = 0; i < ffns; ++i) {
    std::fill(seen.begin(), seen.end(), false);
    const auto fail = [&](const std::string& problem) {
      throw ConfigError(fmt::format("{}: layer {}, expert {}: {}", where, i / experts_, i % experts_, problem));
    };
    if (places_[i].size() != config.ffn) fail(fmt::format("{} neurons (expected the model's {})", places_[i].size(), config.ffn));
    for (const std::uint32_t id : places_[i]) {
      if (id >= config.ffn) fail(fmt::format("neuron {} (expected less than {})", id, config.ffn));
      if (seen[id]) fail(fmt::format("neuron {} is listed twice", id));
      seen[id] = true;
    }
  }
}

std::span<const std::uint32_t> NeuronOrder::of(std::uint32_t layer, std::uint32_t expert) const {
  if (empty()) return {};
  return places_.at(std::size_t{layer} * experts_ + expert);
}

NeuronOrder read_gpuidx(const std::string& path, const ModelConfig& config) {
  const Gguf file = Gguf::open_indices(path);
  constexpr std::string_view kArchitecture = "generic.gpu_index";
  if (const std::string& found = file.text("general.architecture"); found != kArchitecture) {
    file.fail("general.architecture", fmt::format("\"{}\" (expected {})", found, kArchitecture));
  }
  if (config.experts > 0) throw ConfigError(fmt::format("{}: the index has one FFN per layer, but the model has experts", path));
  const std::string next = fmt::format("blk.{}.gpu_idx", config.layers);
  if (file.find_tensor(next) != nullptr) file.fail(next, fmt::format("the model has only {} layers", config.layers));
  std::vector<std::vector<std::uint32_t>> places;
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) places.push_back(hot_first(file, layer, config.ffn));
  return {std::move(places), config, path};
}

}  // namespace vitro
