// What the pipeline reads: which blocks, in which pieces, and what happens when they have come.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/parts/ffn/neuron_cluster/cluster_pipeline.hpp"

namespace vitro {

// Loads start in cluster order, each when there are slots for all its blocks.
void ClusterPipeline::start_loads(Layer& layer) {
  NeuronCache& cache = store_.cache();
  std::vector<Cluster>& clusters = *layer.clusters;
  for (; layer.next_load < clusters.size(); ++layer.next_load) {
    Cluster& cluster = clusters[layer.next_load];
    const bool its_wave = options_.kind == PipelineKind::cluster || cluster.wave == layer.wave;
    if (!its_wave || cluster.loads.size() > cache.free_slots()) return;
    if (cluster.loads.empty()) {
      layer.ready.enter(cluster, Stage::gate_ready);
      continue;
    }
    std::uint32_t from = 0;
    for (BlockLoad& load : cluster.loads) from = load.slot = cache.take_slot(from);
    const BundleLayout& layout = store_.layout();
    const bool gate_alone = layout.first_part > 0 && !layer.every_neuron;
    cluster.stage = Stage::gate_io;
    push_reads(layer, cluster, cluster.loads, 0, gate_alone ? layout.first_part : layout.block);
  }
}

// One read per run of pieces that lie side by side in flash and in the arena, when they are read whole.
void ClusterPipeline::push_reads(Layer& layer, Cluster& cluster, std::span<const BlockLoad> loads, Bytes offset, Bytes length) {
  const Bytes piece = store_.layout().piece();
  for (Bytes stripe = offset / piece; stripe * piece < offset + length; ++stripe) {
    const Bytes first_byte = stripe * piece, begin = std::max(offset, first_byte) - first_byte;
    const Bytes end = std::min(offset + length, first_byte + piece) - first_byte;
    bool first = true;
    for (const BlockLoad& load : loads) {
      const NeuronStore::Piece next = store_.piece_of(load.block, load.slot, static_cast<std::uint32_t>(stripe), begin, end);
      if (!std::exchange(first, false) && store_.join(layer.reads.back().piece, next)) continue;
      layer.reads.push_back({&cluster, next});
      ++cluster.reads_left;
    }
  }
  if (!layer.reads.empty()) look_at_reads(layer);
}

// What is missing of the blocks with an active neuron: of those that were loaded in two phases, and of those that stayed so.
void ClusterPipeline::start_rest(Layer& layer, Cluster& cluster) {
  const BundleLayout& layout = store_.layout();
  layer.ready.enter(cluster, Stage::rest_ready);
  if (layout.first_part == 0) return;
  boost::container::small_vector<BlockLoad, 16> rest;
  if (!layer.every_neuron) {
    std::ranges::copy_if(cluster.loads, std::back_inserter(rest), [&](const BlockLoad& load) {
      return load.slot != NeuronCache::kNone && !(load.stays && store_.cache().half(load.block));
    });
  }
  std::ranges::copy_if(cluster.halves, std::back_inserter(rest), [&](const BlockLoad& half) { return !store_.cache().half(half.block); });
  push_reads(layer, cluster, {rest.data(), rest.size()}, layout.first_part, layout.block - layout.first_part);
  if (cluster.reads_left > 0) layer.ready.enter(cluster, Stage::rest_io);
}

// While reads wait or are under way, their core does nothing else: issuing interrupts what it computes, and whoever waits for that cluster
// would wait for all these reads as well. The faster the flash, the longer.
void ClusterPipeline::look_at_reads(Layer& layer) {
  if (!layer.reading_unit) return;
  const bool away = !layer.reads.empty() || layer.under_way > 0;
  layer.lanes.set_away(*layer.reading_unit, away);
  if (!away) layer.lanes.wake(layer.ready.count());
}

// Units copy what landed when they compute it. A graph of an accelerator takes neurons at their places.
bool ClusterPipeline::units_copy(const Layer& layer) const {
  const auto& units = layer.every_neuron ? options_.dense_units : options_.units;
  return std::ranges::none_of(units, [](const ComputeUnit* unit) { return unit->caps().static_graphs; });
}

void ClusterPipeline::throw_read_error(const Cluster& cluster, const IoResult& result) const {
  throw RunError(fmt::format("reading neurons ({}): {}", store_.describe(cluster.blocks.front()), result.status.message));
}

Task<void> ClusterPipeline::read(Layer* layer) {
  const bool copies = units_copy(*layer);
  const Pattern pattern = layer->every_neuron ? Pattern::sequential : Pattern::random;  // whole layers lie side by side
  while (goes_on(*layer)) {
    if (layer->reads.empty()) {
      co_await reads_pushed_.changed();
      continue;
    }
    const Read next = layer->reads.front();
    layer->reads.pop_front();
    ++layer->under_way;
    IoResult result;
    Landed there;
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::optional<Landed> room = store_.reserve(next.piece);
      for (; !room; room = store_.reserve(next.piece)) co_await store_.room_freed();
      there = *room;
      ReadRequest request = store_.request(next.piece, there, options_.io_core, pattern);
      result = co_await machine_.storage.read(std::move(request));
      if (result.status.ok()) break;
      if (there.bytes > 0) store_.copied({std::exchange(there, {})});
    }
    --layer->under_way;
    look_at_reads(*layer);
    if (!result.status.ok()) throw_read_error(*next.cluster, result);
    if (there.bytes > 0 && layer->scope.stop_requested()) {
      store_.copied({there});
      co_return;
    }
    if (there.bytes > 0 && !(copies && store_.may_wait(there))) {
      layer->to_move.emplace_back(next.cluster, there);
      if (!std::exchange(layer->moving, true)) layer->scope.spawn(guarded(move(layer), layer));
      continue;
    }
    if (there.bytes > 0) next.cluster->landed.push_back(there);
    if (arrived(*layer, *next.cluster)) layer->lanes.wake(layer->ready.count());
  }
}

// Its share of the reads that wait, as far as there is room, in one submission whose end is one event: a few reads do not wait for one
// another while there are lanes for them. A read that fails is tried again by itself.
Task<void> ClusterPipeline::read_together(Layer* layer) {
  const bool copies = units_copy(*layer);
  std::vector<Read> group;
  std::vector<Landed> there;
  while (goes_on(*layer)) {
    group.clear();
    there.clear();
    std::vector<ReadRequest> requests;
    const std::size_t most = std::min<std::size_t>(options_.io_together, (layer->reads.size() + layer->idle_lanes - 1) / layer->idle_lanes);
    requests.reserve(most);
    while (group.size() < most) {
      const Read& next = layer->reads.front();
      const std::optional<Landed> room = store_.reserve(next.piece);
      if (!room) break;
      requests.push_back(store_.request(next.piece, *room, options_.io_core, Pattern::random));
      there.push_back(*room);
      group.push_back(next);
      layer->reads.pop_front();
    }
    if (group.empty()) {
      if (layer->reads.empty()) {
        co_await reads_pushed_.changed();
      } else {
        co_await store_.room_freed();
      }
      continue;
    }
    layer->under_way += group.size();
    --layer->idle_lanes;
    VectorRead read = machine_.storage.read_many(std::move(requests), Delivery::together);
    const VectorRead::Group* results = co_await read.rest();
    std::size_t refused = group.size();  // the first that failed twice
    IoResult why;
    for (const ReadCompletion& done : *results) {
      if (done.result.status.ok()) continue;
      if (refused < group.size() || layer->scope.stop_requested()) break;  // the step ends
      // Into the same room: one that waited for room here would hold that of the whole group meanwhile.
      ReadRequest request = store_.request(group[done.index].piece, there[done.index], options_.io_core, Pattern::random);
      IoResult again = co_await machine_.storage.read(std::move(request));
      if (again.status.ok()) continue;
      refused = done.index;
      why = std::move(again);
    }
    layer->under_way -= group.size();
    ++layer->idle_lanes;
    look_at_reads(*layer);
    if (refused < group.size() || layer->scope.stop_requested()) {
      std::erase_if(there, [](const Landed& room) { return room.bytes == 0; });
      if (!there.empty()) store_.copied(there);
      if (refused < group.size()) throw_read_error(*group[refused].cluster, why);
      co_return;
    }
    bool ready = false;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (there[i].bytes > 0 && !(copies && store_.may_wait(there[i]))) {
        layer->to_move.emplace_back(group[i].cluster, there[i]);
        if (!std::exchange(layer->moving, true)) layer->scope.spawn(guarded(move(layer), layer));
        continue;
      }
      if (there[i].bytes > 0) {
        std::vector<Landed>& landed = group[i].cluster->landed;
        if (landed.empty()) landed.reserve(group[i].cluster->reads_left);
        landed.push_back(there[i]);
      }
      ready |= arrived(*layer, *group[i].cluster);
    }
    if (ready) layer->lanes.wake(layer->ready.count());
  }
}

// What may not wait for the unit that computes it: all of it that has come by then in one call of the core that reads.
Task<void> ClusterPipeline::move(Layer* layer) {
  while (!layer->to_move.empty()) {
    const auto moving = std::exchange(layer->to_move, {});
    std::vector<Landed> landed;
    landed.reserve(moving.size());
    for (const auto& [cluster, there] : moving) landed.push_back(there);
    co_await store_.move(&landed, options_.io_core);
    bool ready = false;
    for (const auto& [cluster, there] : moving) ready |= arrived(*layer, *cluster);
    if (ready) layer->lanes.wake(layer->ready.count());
  }
  layer->moving = false;
}

bool ClusterPipeline::arrived(Layer& layer, Cluster& cluster) {
  if (--cluster.reads_left > 0) return false;
  layer.ready.enter(cluster, cluster.stage == Stage::gate_io ? Stage::gate_ready : Stage::rest_ready);
  return true;
}

}  // namespace vitro
