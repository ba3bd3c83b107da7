#include "engine/parts/part_kinds.hpp"

#include <fmt/format.h>

#include "engine/parts/ffn/experts/make_experts.hpp"
#include "engine/parts/ffn/neuron_cluster/make_clusters.hpp"
#include "engine/parts/placement/placement_kinds.hpp"
#include "engine/parts/weights/mmap_residency.hpp"
#include "engine/parts/weights/stream_residency.hpp"

namespace vitro {
namespace {

std::unique_ptr<Residency> make_dram(const WeightsSetup& setup, const FfnConfig&) {
  if (setup.ffn_in_dram.value_or(1) < 1) {
    throw ConfigError(
        "memory.ffn_in_dram: engine.weights.kind: dram keeps all weights in DRAM (expected 100%, or engine.weights.kind: paged, which is "
        "engine.policy: mmap)");
  }
  return std::make_unique<DenseResidency>(setup.machine, setup.weights);
}

std::unique_ptr<Residency> make_paged(const WeightsSetup& setup, const FfnConfig&) {
  return std::make_unique<MmapResidency>(setup.machine, setup.weights,
                                         MmapOptions{setup.config.read_ahead, setup.ffn_in_dram, setup.keep_free});
}

std::unique_ptr<Residency> make_streamed(const WeightsSetup& setup, const FfnConfig&) {
  if (const std::size_t units = setup.placement.units().size(); units > 1) {
    throw ConfigError(
        fmt::format("engine.weights.kind: streamed buffers one matrix of each kind, which {} units can not share "
                    "(expected one unit, or paged)",
                    units));
  }
  const UnitId reader = setup.machine.units.front()->caps().id;
  return std::make_unique<StreamResidency>(setup.machine, setup.weights, StreamOptions{setup.ffn_in_dram, setup.keep_free, reader});
}

void register_weights(Registry<WeightsKind>& kinds) {
  kinds.add({"dram", "all in DRAM, read once before the first token", make_dram});
  kinds.add({"paged", "pages of 4 KiB on demand, LRU, with read-ahead; a fault blocks the core that computes", make_paged});
  kinds.add({"streamed", "FFN matrices that do not fit are read one by one before they are computed", make_streamed});
  kinds.add({"bundles", "FFN neurons as bundles behind a cache, all else in DRAM",
             [](const WeightsSetup& setup, const FfnConfig& ffn) { return make_bundles(setup, ffn.clusters); }});
}

void register_ffns(Registry<FfnKind>& kinds) {
  kinds.add({"dense", "operator by operator, with all else of a layer", [](const FfnSetup&, const FfnConfig&) { return Ffn{}; }});
  kinds.add({"clusters", "neuron by neuron, in clusters that overlap with reads",
             [](const FfnSetup& setup, const FfnConfig& ffn) { return make_clusters(setup, ffn.clusters); }});
  kinds.add({"experts", "a mixture's experts in tiers of static graphs, and on cores",
             [](const FfnSetup& setup, const FfnConfig& ffn) { return make_experts(setup, ffn.experts); }});
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
