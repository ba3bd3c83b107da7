#include "engine/parts/ffn/neuron_cluster/cluster_pipeline.hpp"

#include <algorithm>
#include <utility>

namespace vitro {
namespace {

constexpr std::size_t kCallsOfStage = 3;  // most of one cluster: Up, activation, Down; before them what landed is copied, in one call

}  // namespace

ClusterPipeline::ClusterPipeline(Machine& machine, GraphCache& graphs, NeuronStore& store, Options options)
    : machine_(machine),
      graphs_(graphs),
      store_(store),
      options_(std::move(options)),
      admission_(machine, store, options_.keep_silent, options_.accesses),
      reads_pushed_(machine.executor) {
  if (options_.dense_units.empty()) options_.dense_units = options_.units;
}

ClusterPipeline::Layer& ClusterPipeline::begin(std::vector<Cluster>* clusters, bool every_neuron) {
  Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(machine_.executor, clusters, every_neuron));
  std::size_t loads = 0;
  for (const Cluster& cluster : *clusters) loads += cluster.loads.size() + cluster.halves.size();
  if (layers_.size() == 1 || layers_.front()->next_load == layers_.front()->clusters->size()) start_loads(layer);
  const std::size_t parts = std::max(2u, store_.layout().stripes);  // reads that a block may take
  const std::size_t together = every_neuron ? 1 : options_.io_together;
  const std::size_t reads = std::min<std::size_t>(options_.io_depth, parts * loads), lanes = (reads + together - 1) / together;
  layer.idle_lanes = lanes;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    layer.scope.spawn(guarded(together > 1 ? read_together(&layer) : read(&layer), &layer));
  }
  return layer;
}

void ClusterPipeline::read_ahead(std::vector<Cluster>* clusters) {
  VITRO_CHECK(options_.kind == PipelineKind::cluster, "this pipeline never reads while it computes");
  begin(clusters, true);
}

Task<void> ClusterPipeline::run(std::vector<Cluster>* clusters, ClusterCalls calls, bool every_neuron) {
  if (layers_.empty()) begin(clusters, every_neuron);
  Layer& layer = *layers_.front();
  VITRO_CHECK(layer.clusters == clusters, "another layer was read ahead");
  layer.calls = std::move(calls);
  advance(layer);
  const std::vector<ComputeUnit*>& units = every_neuron ? options_.dense_units : options_.units;
  layer.lanes.begin(units.size());
  layer.activations.assign(units.size(), 0);
  const auto reading = std::ranges::find(units, options_.io_core, [](const ComputeUnit* unit) { return unit->caps().id; });
  if (!every_neuron && units.size() > 1 && reading != units.end()) {
    layer.reading_unit = static_cast<std::uint32_t>(reading - units.begin());
    look_at_reads(layer);
  }
  for (std::uint32_t lane = 0; lane < options_.unit_depth; ++lane) {
    for (std::uint32_t u = 0; u < units.size(); ++u) layer.scope.spawn(guarded(compute(&layer, units[u], u), &layer));
  }
  std::exception_ptr error;
  try {
    co_await layer.scope.join();
  } catch (...) {
    error = std::current_exception();
  }
  layers_.pop_front();
  store_.cache().unpin_all();
  if (error) std::rethrow_exception(error);
}

Task<void> ClusterPipeline::settle() {
  while (!layers_.empty()) {
    layers_.front()->scope.request_stop();
    drop_landed(*layers_.front());
    reads_pushed_.notify();
    try {
      co_await layers_.front()->scope.join();
    } catch (const std::exception&) {
      // The run has failed already, with the first error.
    }
    layers_.pop_front();
  }
}

// A core works its chains off in their order, so what its last product quantised is at hand for the next one of the same activations. A
// graph is launched again with other activations: its calls have no number. last: null for a unit that is no core.
void ClusterPipeline::note_activations(Chain& chain, std::uint32_t* last) {
  for (KernelCall& call : chain) {
    if (last == nullptr) call.activations = 0;
    if (call.activations == 0) continue;
    call.quantised_before = call.activations == *last;
    *last = call.activations;
  }
}

// Whoever waits for a stage that will never come has to hear of the failure.
Task<void> ClusterPipeline::guarded(Task<void> task, Layer* layer) {
  try {
    co_await std::move(task);
  } catch (...) {
    layer->scope.request_stop();
    drop_landed(*layer);
    layer->lanes.wake_all();
    reads_pushed_.notify();
    throw;
  }
}

Task<void> ClusterPipeline::compute(Layer* layer, ComputeUnit* unit, std::uint32_t index) {
  UnitLanes& lanes = layer->lanes;
  const bool needs_no_graph = GraphCache::needs_no_graph(*unit);
  while (goes_on(*layer)) {
    const bool in_turn = lanes.in_turn(index);
    const Taken taken = in_turn ? take(*layer) : Taken();
    const std::span<Cluster* const> clusters(taken.data(), taken.size());
    if (clusters.empty()) {
      if (!in_turn) lanes.wake(layer->ready.count());
      co_await lanes.wait(index);
      continue;
    }
    const bool gates = clusters.front()->stage == Stage::gate_runs;
    lanes.call_begins(index);
    lanes.wake(layer->ready.count());  // it may be somebody else's turn now
    Chain chain;
    chain.reserve(kCallsOfStage * clusters.size() + 1);
    const std::vector<Landed> landed = take_landed(clusters);
    if (!landed.empty()) chain.push_back(store_.copy(landed));
    for (const Cluster* cluster : clusters) (gates ? layer->calls.gate : layer->calls.rest)(*cluster, chain);
    note_activations(chain, needs_no_graph && unit->caps().kind == UnitKind::core ? &layer->activations[index] : nullptr);
    RunResult result;
    std::exception_ptr error;
    if (!chain.empty()) {
      charge_dispatch(machine_.clock, chain);
      try {
        if (needs_no_graph) {
          result = co_await unit->run(std::move(chain));
        } else {
          result = co_await graphs_.run(unit, std::move(chain));
        }
      } catch (...) {
        error = std::current_exception();
      }
    }
    lanes.call_ends(index);
    store_.copied(landed);
    if (error) std::rethrow_exception(error);
    result.status.or_throw();
    if (gates) {
      set_active(*layer, clusters, result.outcomes);
    } else {
      for (Cluster* cluster : clusters) finish(*layer, *cluster);
    }
    advance(*layer);
    if (layer->ready.all_done()) {
      lanes.wake_all();
    } else {
      lanes.wake(layer->ready.count());
    }
    if (layer->ready.all_done() || layers_.size() > 1) {
      reads_pushed_.notify();
    } else {
      reads_pushed_.notify(layer->reads.size());  // all that wait are this layer's, and one is like another
    }
  }
}

// Who computes a neuron is the first that touches it, and copies it: all units share what one core had to do.
std::vector<Landed> ClusterPipeline::take_landed(std::span<Cluster* const> clusters) {
  std::vector<Landed> all;
  for (Cluster* cluster : clusters) {
    all.insert(all.end(), cluster->landed.begin(), cluster->landed.end());
    cluster->landed.clear();
  }
  return all;
}

// The layer ends early: nobody will copy what landed for it, and other reads wait for its room.
void ClusterPipeline::drop_landed(Layer& layer) {
  for (Cluster& cluster : *layer.clusters) store_.copied(std::exchange(cluster.landed, {}));
  for (const auto& [cluster, landed] : std::exchange(layer.to_move, {})) store_.copied({landed});
}

// True when no cluster of the current wave is still before `stage`.
bool ClusterPipeline::whole_wave_past(const Layer& layer, Stage stage) const {
  return std::all_of(layer.clusters->begin(), layer.clusters->end(),
                     [&](const Cluster& c) { return c.wave != layer.wave || c.stage >= stage; });
}

// The first cluster whose gate can be computed, so that what it needs of Up and Down is known early; else the first whose
// Up and Down can. While reads wait to be issued no gate is urgent, and Up and Down that are put off would be left when the last read has
// come. Where clusters come in waves, only those of the present one are ready.
Cluster* ClusterPipeline::pick(Layer& layer) const {
  if (layer.ready.count() == 0) return nullptr;
  const auto gates = [&] { return options_.kind != PipelineKind::none || whole_wave_past(layer, Stage::gate_ready); };
  const auto rests = [&] {
    return options_.kind == PipelineKind::cluster ||
           (whole_wave_past(layer, Stage::gated) && (options_.kind == PipelineKind::matrix || whole_wave_past(layer, Stage::rest_ready)));
  };
  Cluster* rest = layer.ready.first_rest();
  if (rest != nullptr && !rests()) rest = nullptr;
  if (rest != nullptr && !layer.reads.empty()) return rest;
  Cluster* gate = layer.ready.first_gate();
  return gate != nullptr && gates() ? gate : rest;
}

// The clusters of one dispatch, which costs a unit as much as computing a small cluster does. Where many are ready at once, as when a
// queue of reads has come, each unit gets half of its share of them (guided self-scheduling), so that they still end together. A
// gate that tells what to read is handed over alone, since its outcome comes with the end of the chain; so are clusters of a step
// that computes every neuron, which are large, and graphs on an accelerator.
ClusterPipeline::Taken ClusterPipeline::take(Layer& layer) const {
  Taken taken;
  std::size_t most = layer.every_neuron ? 1 : std::max<std::size_t>(1, layer.ready.count() / (2 * options_.units.size()));
  while (taken.size() < most) {
    Cluster* cluster = pick(layer);
    if (cluster == nullptr) break;
    const bool gate = cluster->stage == Stage::gate_ready;
    if (!taken.empty() && gate != (taken.front()->stage == Stage::gate_runs)) break;
    if (gate && store_.layout().first_part > 0) most = 1;
    layer.ready.enter(*cluster, gate ? Stage::gate_runs : Stage::rest_runs);
    taken.push_back(cluster);
  }
  return taken;
}

// Everything that follows from what has just ended, without waiting.
void ClusterPipeline::advance(Layer& layer) {
  std::vector<Cluster>& clusters = *layer.clusters;
  for (bool more = true; more;) {
    more = false;
    start_loads(layer);
    while (layer.next_admission < clusters.size() && clusters[layer.next_admission].stage == Stage::gated) {
      admission_.admit(clusters[layer.next_admission++], layer.every_neuron);
      more = true;  // slots may be free now
    }
    if (options_.kind != PipelineKind::none || whole_wave_past(layer, Stage::gated)) {
      for (; layer.next_rest < layer.next_admission; ++layer.next_rest) start_rest(layer, clusters[layer.next_rest]);
    }
    if (options_.kind != PipelineKind::cluster && !layer.ready.all_done() && whole_wave_past(layer, Stage::done)) {
      ++layer.wave;
      more = true;
    }
  }
  const bool all_have_slots = layer.next_load == clusters.size();
  if (all_have_slots && layers_.size() > 1 && &layer == layers_.front().get()) {
    start_loads(*layers_[1]);
    if (!layers_[1]->reads.empty()) reads_pushed_.notify();
  }
}

void ClusterPipeline::set_active(const Layer& layer, std::span<Cluster* const> clusters, const std::vector<Outcome>& outcomes) {
  VITRO_CHECK(layer.every_neuron || outcomes.size() == clusters.size(), "a gate stage says which neurons are active");
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    const IndexList& neurons = clusters[i]->neurons;
    const auto [first, end] = neurons->empty() ? std::pair(0u, 0u) : std::pair(neurons->front(), neurons->back() + 1);
    if (!layer.every_neuron) check_active(std::get<ActiveSet>(outcomes[i]).rows, first, end);
    clusters[i]->active = layer.every_neuron ? neurons : united(std::get<ActiveSet>(outcomes[i]).rows);
    clusters[i]->stage = Stage::gated;
  }
}

void ClusterPipeline::finish(Layer& layer, Cluster& cluster) {
  layer.ready.enter(cluster, Stage::done);
  for (const BlockLoad& load : cluster.loads) {
    if (load.slot != NeuronCache::kNone && !load.stays) store_.cache().give_back(load.slot);
  }
}

}  // namespace vitro
