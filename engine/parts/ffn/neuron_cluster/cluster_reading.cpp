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
void ClusterPipeline::push_reads(Layer& layer, Cluster& cluster, const std::vector<BlockLoad>& loads, Bytes offset, Bytes length) {
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
  std::vector<BlockLoad> rest;
  if (!layer.every_neuron) {
    std::ranges::copy_if(cluster.loads, std::back_inserter(rest), [&](const BlockLoad& load) {
      return load.slot != NeuronCache::kNone && !(load.stays && store_.cache().half(load.block));
    });
  }
  std::ranges::copy_if(cluster.halves, std::back_inserter(rest), [&](const BlockLoad& half) { return !store_.cache().half(half.block); });
  push_reads(layer, cluster, rest, layout.first_part, layout.block - layout.first_part);
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

Task<void> ClusterPipeline::read(Layer* layer) {
  // A graph of an accelerator takes neurons at their places.
  const auto& units = layer->every_neuron ? options_.dense_units : options_.units;
  const bool copies = std::ranges::none_of(units, [](const ComputeUnit* unit) { return unit->caps().static_graphs; });
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
    Landed landed;
    for (int attempt = 0; attempt < 2; ++attempt) {
      result = co_await store_.read(next.piece, options_.io_core, pattern, &landed);
      if (result.status.ok()) break;
    }
    --layer->under_way;
    look_at_reads(*layer);
    if (!result.status.ok()) {
      throw RunError(fmt::format("reading neurons ({}): {}", store_.describe(next.cluster->blocks.front()), result.status.message));
    }
    if (landed.bytes > 0 && layer->scope.stop_requested()) {
      store_.copied({landed});
      co_return;
    }
    if (landed.bytes > 0 && !(copies && store_.may_wait(landed))) {
      layer->to_move.emplace_back(next.cluster, landed);
      if (!std::exchange(layer->moving, true)) layer->scope.spawn(guarded(move(layer), layer));
      continue;
    }
    if (landed.bytes > 0) next.cluster->landed.push_back(landed);
    arrived(*layer, *next.cluster);
  }
}

// What may not wait for the unit that computes it: all of it that has come by then in one call of the core that reads.
Task<void> ClusterPipeline::move(Layer* layer) {
  while (!layer->to_move.empty()) {
    const auto moving = std::exchange(layer->to_move, {});
    std::vector<Landed> landed;
    for (const auto& [cluster, there] : moving) landed.push_back(there);
    co_await store_.move(&landed, options_.io_core);
    for (const auto& [cluster, there] : moving) arrived(*layer, *cluster);
  }
  layer->moving = false;
}

void ClusterPipeline::arrived(Layer& layer, Cluster& cluster) {
  if (--cluster.reads_left > 0) return;
  layer.ready.enter(cluster, cluster.stage == Stage::gate_io ? Stage::gate_ready : Stage::rest_ready);
  layer.lanes.wake(layer.ready.count());
}

}  // namespace vitro
