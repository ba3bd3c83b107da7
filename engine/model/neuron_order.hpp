// The order in which a packed file stores the neurons of an FFN: hottest first, so that a hot cluster is one sequential read
// (PowerInfer-2, section 4.4). A neuron has the same place in Gate, Up and Down, so no result depends on the order but by
// rounding.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model_config.hpp"

namespace vitro {

class NeuronOrder {
 public:
  NeuronOrder() = default;  // every neuron where the model has it
  // places: per layer and in it per expert, a permutation of the neurons' ids by place. Throws ConfigError, beginning with
  // `where`, when they are not that for this model.
  NeuronOrder(std::vector<std::vector<std::uint32_t>> places, const ModelConfig& config, const std::string& where);

  bool empty() const { return places_.empty(); }
  // Ids by place; empty when the order is.
  std::span<const std::uint32_t> of(std::uint32_t layer, std::uint32_t expert) const;
  const std::vector<std::vector<std::uint32_t>>& all() const { return places_; }

 private:
  std::vector<std::vector<std::uint32_t>> places_;  // [layer * experts + expert][place]
  std::uint32_t experts_ = 1;
};

// PowerInfer's hot and cold split (`*.generated.gpuidx`: per layer gpu_idx, 1 for each hot neuron, and gpu_bucket, the sorted
// ids of the hot ones): the hot ids first, both kinds ascending. Throws ConfigError for a bad file, a contradiction between the
// two, a layer that is missing, another model's shape, and mixtures of experts, which such files do not describe.
NeuronOrder read_gpuidx(const std::string& path, const ModelConfig& config);

}  // namespace vitro
