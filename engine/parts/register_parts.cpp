#include "engine/parts/register_parts.hpp"

#include <fmt/format.h>

#include "engine/parts/ffn/experts/make_experts.hpp"
#include "engine/parts/ffn/neuron_cluster/make_clusters.hpp"
#include "engine/parts/placement/placement_kinds.hpp"
#include "engine/parts/weights/expert_residency.hpp"
#include "engine/parts/weights/mmap_residency.hpp"
#include "engine/parts/weights/stream_residency.hpp"

namespace vitro {
namespace {

bool in_bundles(const WeightsSetup& setup) { return setup.weights.first(Role::ffn_bundle) != nullptr; }

std::unique_ptr<Residency> keep_neurons(const WeightsSetup& setup, const FfnConfig& ffn, NeuronsIn in) {
  if (setup.config.experts.neurons_ahead > 0 && (in != NeuronsIn::cache || ffn.kind == "experts" || setup.model.experts == 0)) {
    throw ConfigError("engine.weights.experts.neurons_ahead: is of the experts of a mixture that are computed neuron by neuron behind a "
                      "cache (expected engine.weights.kind: bundles or experts, engine.ffn.kind: clusters or dense, and a mixture)");
  }
  return make_bundles(setup, ffn.kind == "clusters" ? ffn.clusters : every_neuron(ffn.clusters), in);
}

std::unique_ptr<Residency> make_dram(const WeightsSetup& setup, const FfnConfig& ffn) {
  if (setup.ffn_in_dram.value_or(1) < 1) {
    throw ConfigError(
        "memory.ffn_in_dram: engine.weights.kind: dram keeps all weights in DRAM (expected 100%, or engine.weights.kind: paged, which is "
        "engine.policy: mmap)");
  }
  if (in_bundles(setup)) return keep_neurons(setup, ffn, NeuronsIn::dram);
  return std::make_unique<DenseResidency>(setup.machine, setup.weights);
}

std::unique_ptr<Residency> make_paged(const WeightsSetup& setup, const FfnConfig& ffn) {
  if (in_bundles(setup)) return keep_neurons(setup, ffn, NeuronsIn::pages);
  return std::make_unique<MmapResidency>(setup.machine, setup.weights,
                                         MmapOptions{setup.config.read_ahead, setup.ffn_in_dram, setup.keep_free});
}

std::unique_ptr<Residency> make_streamed(const WeightsSetup& setup, const FfnConfig& ffn) {
  if (in_bundles(setup)) return keep_neurons(setup, ffn, NeuronsIn::stream);
  StreamOptions options{setup.ffn_in_dram, setup.keep_free, setup.machine.units.front()->caps().id};
  options.experts_at_once = ffn.kind == "experts" && ffn.experts.graphs && ffn.experts.groups;
  return std::make_unique<StreamResidency>(setup.machine, setup.weights, options);
}

std::unique_ptr<Residency> make_cached(const WeightsSetup& setup, const FfnConfig& ffn) {
  return keep_neurons(setup, ffn, NeuronsIn::cache);
}

std::unique_ptr<Residency> make_expert_cache(const WeightsSetup& setup, const FfnConfig& ffn) {
  if (in_bundles(setup)) return keep_neurons(setup, ffn, NeuronsIn::cache);
  const NeuronCacheConfig& rules = setup.config.neurons;
  ExpertCacheOptions options{rules.eviction, rules.admission, setup.config.experts.budget, setup.ffn_in_dram, setup.keep_free};
  options.reader = setup.machine.units.front()->caps().id;
  options.reads_in_flight = setup.config.experts.window;
  options.look_ahead = setup.config.experts.look_ahead;
  options.ahead = setup.config.experts.ahead;
  options.experts_used = setup.model.experts_used;
  if (setup.config.experts.calibrated) options.expected = ffn.experts.loads;
  return std::make_unique<ExpertResidency>(setup.machine, setup.weights, std::move(options));
}

Ffn make_dense(const FfnSetup& setup, const FfnConfig& ffn) {
  return setup.residency.neurons() != nullptr ? make_clusters(setup, every_neuron(ffn.clusters)) : Ffn{};
}

Ffn make_tiers(const FfnSetup& setup, const FfnConfig& ffn) {
  if (setup.residency.neurons() == nullptr) return make_experts(setup, ffn.experts);
  return make_experts(setup, ffn.experts, [&](std::vector<ComputeUnit*> units, std::uint32_t max_rows, GraphCache& graphs) {
    return make_neurons(setup, ffn.clusters, std::move(units), max_rows, graphs);
  });
}

void register_weights(Registry<WeightsKind>& kinds) {
  kinds.add({"dram", "all in DRAM, read once before the first token", make_dram});
  kinds.add({"paged", "pages of 4 KiB on demand, LRU, with read-ahead; a fault blocks the core that computes", make_paged});
  kinds.add({"streamed", "FFN matrices that do not fit are read one by one before they are computed", make_streamed});
  kinds.add({"experts", "a mixture's experts behind a cache, whole or neuron by neuron, all else in DRAM", make_expert_cache});
  kinds.add({"bundles", "FFN neurons as bundles behind a cache, all else in DRAM", make_cached});
}

void register_ffns(Registry<FfnKind>& kinds) {
  kinds.add({"dense", "operator by operator, with all else of a layer; every neuron of bundles", make_dense});
  kinds.add({"clusters", "neuron by neuron, in clusters that overlap with reads",
             [](const FfnSetup& setup, const FfnConfig& ffn) { return make_clusters(setup, ffn.clusters); }});
  kinds.add({"experts", "a mixture's experts in tiers of static graphs, and on cores", make_tiers});
}

template <class Part>
Registry<Part> filled(void (*fill)(Registry<Part>&)) {
  Registry<Part> own;
  fill(own);
  return own;
}

}  // namespace

Registry<WeightsKind>& weights_kinds() {
  static Registry<WeightsKind> kinds = filled(register_weights);
  return kinds;
}

Registry<FfnKind>& ffn_kinds() {
  static Registry<FfnKind> kinds = filled(register_ffns);
  return kinds;
}

Registry<PlacementKind>& placement_kinds() {
  static Registry<PlacementKind> kinds = filled(register_placements);
  return kinds;
}

}  // namespace vitro
