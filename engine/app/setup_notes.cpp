#include "engine/app/setup_notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/app/run_setup.hpp"
#include "engine/parts/placement/useful_threads.hpp"

namespace vitro {
namespace {

std::string one_core(const Experiment& experiment, const LoadedModel& model) {
  const PlacementConfig& placement = experiment.engine.placement;
  const bool accelerated = !placement.unit.empty() || !placement.graph_units.empty() || !std::ranges::all_of(placement.units, is_core_name);
  const std::size_t cores = placement.units.empty() ? machine_request(experiment, model).threads : placement.units.size();
  const bool in_float = experiment.engine.products.matmul == variant::kFloat;
  const bool asked_for = placement.threads == 1 || !placement.units.empty();
  if (accelerated || cores != 1 || (asked_for && !in_float)) return {};
  if (useful_threads(model.bytes_per_token(), model.config.layers, 2) == 1) return {};  // a small model, which a core alone serves best
  if (!in_float) return "one core computes all matmuls, since none are named, and more would have work (engine.threads or engine.units)";
  return "one core computes all matmuls in float32, where more would have work (engine.threads or engine.units: more cores; "
         "engine.activations: int8: integer products of quantised weights)";
}

std::string idle_balance(const Experiment& experiment) {
  const PlacementConfig& placement = experiment.engine.placement;
  if (!placement.balanced) return {};
  const auto other = std::ranges::find_if_not(placement.units, is_core_name);
  if (placement.kind == "cores" && other == placement.units.end()) return {};
  const std::string cause = placement.kind == "cores" ? fmt::format("{} is among the units", *other)
                                                      : fmt::format("engine.placement.kind is {}", placement.kind);
  return fmt::format("engine.placement.balance: rates has no effect: {}, and speeds are measured where work is cut for cores alone "
                     "(engine.placement.kind: cores, units that are cores)",
                     cause);
}

// Bytes of each read that brings a missing neuron which fires.
std::vector<Bytes> reads_of(const BundleLayout& layout, bool two_phases) {
  if (layout.stripes > 1) return std::vector<Bytes>(layout.stripes, layout.piece());
  if (!two_phases || layout.first_part == 0) return {layout.block};
  return {layout.first_part, layout.block - layout.first_part};
}

std::string written(const std::vector<Bytes>& reads) {
  std::vector<std::string> sizes;
  for (const Bytes read : reads) sizes.push_back(format_bytes(read));
  return fmt::format("{} of {}", reads.size() == 1 ? "1 read" : fmt::format("{} reads", reads.size()), fmt::join(sizes, " and "));
}

std::string dear_layout(const Experiment& experiment, const WeightStore& weights, Bytes flash_bytes) {
  const Weight* const neurons = weights.first(Role::ffn_bundle);
  const WeightsConfig& config = experiment.engine.weights;
  if (neurons == nullptr || flash_bytes == 0) return {};
  const BundleLayout own = neurons->bundles();
  const Format format = own.format == Format::q4_nibbles ? Format::q4_0 : own.format;
  const BundleLayout whole = bundle_layout(format, own.neurons, own.width, BundleForm::one_read);
  const bool two_phases = config.neurons.two_phases && experiment.engine.ffn.kind == "clusters";
  const std::vector<Bytes> here = reads_of(own, two_phases), there = reads_of(whole, false);
  if (here.size() == there.size() && own.block <= whole.block) return {};
  const bool halves = here.size() == 2 && own.stripes == 1 && own.block <= whole.block;
  return fmt::format("engine.layout: {}: a missing neuron that fires takes {}, with bundles {}; on a phone's UFS a read of 4 to 12 KiB "
                     "cost the core that issues it about the same (docs/design/neuron-clusters.md), so compare {}engine.layout: bundles",
                     to_string(neurons->form), written(here), written(there), halves ? "engine.clusters.two_phases: false or " : "");
}

}  // namespace

std::vector<std::string> setup_notes(const Experiment& experiment, const LoadedModel& model, const WeightStore& weights,
                                     Bytes flash_bytes) {
  std::vector<std::string> notes{one_core(experiment, model), idle_balance(experiment),
                                 dear_layout(experiment, weights, flash_bytes)};
  std::erase(notes, "");
  return notes;
}

}  // namespace vitro
