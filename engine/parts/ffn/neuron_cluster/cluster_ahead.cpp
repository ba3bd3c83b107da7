// What begins before a layer's input is there: hot neurons, and whole layers of a prefill.
#include <array>
#include <memory>
#include <utility>

#include "engine/parts/ffn/neuron_cluster/cluster_ffn.hpp"

namespace vitro {
namespace {

constexpr std::array<std::int16_t, 1> kOnlyFfn{-1};

}  // namespace

// A prefill needs every neuron, whatever x is: reading can begin. Other steps have hot neurons to look after. Which experts of a
// mixture is not known yet: many rows leave hardly one out.
void ClusterFfn::prepare(std::int16_t layer, std::uint32_t rows, std::uint32_t sequences) {
  const std::uint32_t pairs = rows * options_.experts_used, experts = store_.experts();
  if (dense(pairs, experts) && (experts == 1 || chooses_nearly_all(pairs, experts))) {
    if (options_.pipeline.kind == PipelineKind::cluster) read_ahead(layer, pairs);
  } else if (experts == 1 && hot_) {
    hot_->prepare(layer, kOnlyFfn, sequences, rows);
  }
}

void ClusterFfn::read_ahead(std::int16_t layer, std::uint32_t rows) {
  auto step = std::make_unique<Step>();
  step->layer = layer;
  step->every_neuron = true;
  const std::uint32_t experts = store_.experts();
  for (std::uint32_t e = 0; e < experts; ++e) {
    step->groups.emplace_back().expert = static_cast<std::int16_t>(experts > 1 ? static_cast<int>(e) : -1);
  }
  plan(*step, std::vector<NamedNeurons>(experts, {all_neurons_}), rows);
  pipeline_.read_ahead(&step->clusters);
  ahead_[layer] = std::move(step);
}

// The groups that the router made of what was planned for all experts. One that no row chose is not computed; what is not being read yet
// of it is not read.
void ClusterFfn::meet(Step& step, std::vector<FfnGroup> groups) {
  std::map<std::int16_t, std::uint32_t> numbers;
  for (std::uint32_t g = 0; g < groups.size(); ++g) numbers[groups[g].expert] = g;
  for (Cluster& cluster : step.clusters) {
    const auto found = numbers.find(step.groups[cluster.group].expert);
    cluster.group = found == numbers.end() ? Cluster::kNoGroup : found->second;
    if (found != numbers.end() || cluster.stage != Cluster::Stage::waiting) continue;
    cluster.neurons = std::make_shared<const std::vector<std::uint32_t>>();
    cluster.blocks.clear();
    cluster.loads.clear();
  }
  step.groups = std::move(groups);
}

}  // namespace vitro
