#include "engine/parts/ffn/neuron_cluster/cluster_ffn.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "engine/graph/lowering.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

constexpr std::size_t kClustersPerUnit = 8;  // of a step that reads nothing

// Sequences of a step, and whether each has one row in it, however many experts that one meets.
std::pair<std::uint32_t, bool> sequences_in(const std::vector<FfnGroup>& groups) {
  std::map<std::uint32_t, std::uint32_t> found;  // sequence, position
  bool decodes = true;
  for (const FfnGroup& group : groups) {
    for (const SeqPos& row : *group.rows) decodes &= found.try_emplace(row.sequence, row.position).first->second == row.position;
  }
  return {static_cast<std::uint32_t>(found.size()), decodes};
}

Task<void> run_chain(GraphCache* graphs, ComputeUnit* unit, Chain chain) {
  const RunResult result = co_await graphs->run(unit, std::move(chain));
  result.status.or_throw();
}

}  // namespace

ClusterFfn::ClusterFfn(Machine& machine, GraphCache& graphs, NeuronStore& store, std::unique_ptr<Predictor> predictor,
                       std::unique_ptr<HotRegion> hot, ClusterFfnOptions options)
    : machine_(machine),
      graphs_(graphs),
      store_(store),
      predictor_(std::move(predictor)),
      hot_(std::move(hot)),
      options_(std::move(options)),
      pipeline_(machine, graphs, store, options_.pipeline) {
  const Bytes rows = options_.max_rows, width = store_.layout().width;
  auto all = std::make_shared<std::vector<std::uint32_t>>(store_.neurons());
  std::iota(all->begin(), all->end(), 0u);
  all_neurons_ = std::move(all);
  const auto lease = [&](Bytes bytes, Lease& into) {
    Result<Lease> result = machine_.memory.lease(bytes, Placement::dram, Region::activation);
    if (!result.ok()) throw ConfigError("memory.budget: no room for the activations of the FFN: " + result.status().message);
    into = std::move(result).value();
  };
  for (Lease* buffer : {&gate_, &up_, &hidden_}) lease(4 * rows * store_.neurons(), *buffer);
  const Bytes clusters = store_.neurons() / options_.cluster_neurons + store_.neurons() / store_.staging_blocks() * 2 + 2;
  // At least one per unit, so that clusters which add to the one before them still run side by side, and the accelerator's.
  const Bytes least = options_.pipeline.units.size() + (hot_ ? 1 : 0), sum = 4 * rows * width;
  lease(sum * std::min(clusters + (hot_ ? 1 : 0), std::max(options_.partials / sum, least)), partials_);
  if (!options_.norm_eps) return;
  lease_for_norm();
  if (hot_) hot_->share(gate_, up_, hidden_, store_.neurons());
}

// Of a dense step they follow from which parts of its clusters are read together.
std::vector<UnitChain> ClusterFfn::graphs(std::uint32_t rows, std::uint32_t sequences) {
  if (!hot_ || options_.adapters || dense(rows, 1)) return {};
  return hot_->graphs(rows, sequences);
}

Task<void> ClusterFfn::settle() {
  const bool dropped = !ahead_.empty();  // the step failed before it came to a layer that was read ahead, which has slots
  co_await pipeline_.settle();
  if (options_.look_ahead != nullptr) co_await options_.look_ahead->settle();
  ahead_.clear();
  if (hot_) co_await hot_->settle();
  if (!std::exchange(failed_, false) && !dropped && !(hot_ && hot_->failed())) co_return;
  // What was being read may not have come, or not whole.
  store_.cache().clear();
  if (hot_) hot_->start_anew();
}

void ClusterFfn::plan(Step& step, const std::vector<NamedNeurons>& neurons, std::uint32_t rows) {
  std::vector<PlannedGroup> planned;
  for (std::size_t g = 0; g < step.groups.size(); ++g) planned.push_back({&step.groups[g], neurons[g]});
  ClusterPlanOptions options;
  options.cluster_neurons = step.every_neuron ? options_.dense_neurons : options_.cluster_neurons;
  if (!step.every_neuron && store_.cache().holds_all()) {
    // Small clusters are for reading beside computing; without reads they are dispatches, of which a few for each unit even out their ends.
    std::size_t named = 0;
    for (const NamedNeurons& some : neurons) named += some.list->size();
    const std::size_t few = named / (kClustersPerUnit * options_.pipeline.units.size()) + 1;
    options.cluster_neurons = std::max(options.cluster_neurons, static_cast<std::uint32_t>(few));
  }
  options.partials = most_partials(rows) - (hot_ ? 1 : 0);
  step.clusters = plan_clusters(store_, step.layer, planned, options);
}

// Of each group those that the units compute: predicted, or all behind the hot ones.
Task<std::vector<NamedNeurons>> ClusterFfn::cold_neurons(Step* step) {
  if (predictor_ && !step->every_neuron) {
    std::vector<NamedNeurons> predicted = co_await predictor_->predict(step->layer, &step->groups, step->hot);
    if (!options_.measure) co_return predicted;
    for (NamedNeurons& some : predicted) step->predicted.push_back(std::move(some.list));
  }
  std::vector<NamedNeurons> neurons;
  for (const std::uint32_t hot : step->hot) {
    neurons.push_back({hot == 0 ? all_neurons_
                                : std::make_shared<const std::vector<std::uint32_t>>(all_neurons_->begin() + hot, all_neurons_->end())});
  }
  co_return neurons;
}

// What the accelerator takes of each group. For experts this is the first moment at which they are known. A prompt has as many
// sequences as the steps after it, so it leaves them the region that they want.
void ClusterFfn::choose_hot(Step& step) {
  step.hot.assign(step.groups.size(), 0);
  if (!hot_ || step.every_neuron) return;
  std::tie(step.sequences, step.decodes) = sequences_in(step.groups);
  std::vector<std::int16_t> experts;
  for (const FfnGroup& group : step.groups) {
    if (group.expert >= 0) experts.push_back(group.expert);
  }
  if (!experts.empty()) hot_->prepare(step.layer, experts, step.sequences);
  for (std::size_t g = 0; g < step.groups.size(); ++g) step.hot[g] = hot_->neurons(step.layer, step.groups[g].expert);
}

Task<void> ClusterFfn::run(std::int16_t layer, std::vector<FfnGroup> groups) {
  auto step = std::make_unique<Step>();
  const auto ahead = ahead_.find(layer);
  const bool read_ahead = ahead != ahead_.end();
  if (read_ahead) {
    step = std::move(ahead->second);
    ahead_.erase(ahead);
  }
  failed_ = true;  // until it has ended well
  step->layer = layer;
  if (read_ahead) {
    meet(*step, std::move(groups));
  } else {
    step->groups = std::move(groups);
  }
  std::uint32_t rows = 0;
  for (const FfnGroup& group : step->groups) {
    step->first_row.push_back(rows);
    step->inputs.push_back(number_activations());
    rows += static_cast<std::uint32_t>(group.rows->size());
  }
  VITRO_CHECK(rows <= options_.max_rows, "a step beyond its limits");
  step->every_neuron = dense(rows, step->groups.size());
  step->partials = most_partials(rows);
  if (hot_ && options_.look_ahead != nullptr) co_await options_.look_ahead->arrive_all();  // any block may become hot now
  choose_hot(*step);
  if (options_.adapters) co_await adapt_inputs(step.get());
  if (options_.norm_eps) sum_apart(*step);
  if (options_.norm_eps && !step->every_neuron) co_await clear_hidden(step.get());

  TaskScope scope(machine_.executor);
  for (std::uint32_t g = 0; g < step->groups.size(); ++g) {
    if (step->hot[g] > 0) scope.spawn(hot_->run(layer, &step->groups[g], step->first_row[g], partial(*step, g, 0)));
  }
  scope.spawn(run_cold(step.get(), rows, read_ahead));
  co_await scope.join();
  if (options_.look_ahead != nullptr) options_.look_ahead->begin();
  if (options_.adapters && !options_.adapters->multiplies()) co_await adapt_hidden(step.get());
  co_await reduce(step.get());
  if (options_.adapters && options_.adapters->multiplies()) co_await adapt_hidden(step.get());
  if (options_.norm_eps) co_await divide_by_norm(step.get());
  if (hot_) hot_->release(layer);
  failed_ = false;
}

Task<void> ClusterFfn::run_cold(Step* step, std::uint32_t rows, bool planned) {
  if (!planned) {
    const std::vector<NamedNeurons> neurons = co_await cold_neurons(step);
    plan(*step, neurons, rows);
    if (options_.look_ahead != nullptr) {
      if (!step->every_neuron) {
        for (std::size_t g = 0; g < neurons.size(); ++g) options_.look_ahead->names(step->layer, step->groups[g].expert, neurons[g].list);
      }
      co_await options_.look_ahead->arrive(&step->clusters);
    }
  }
  ClusterCalls calls;
  calls.gate = [this, step](const Cluster& cluster, Chain& chain) {
    if (cluster.group != Cluster::kNoGroup) gate_calls(*step, cluster, chain);
  };
  calls.rest = [this, step](const Cluster& cluster, Chain& chain) {
    if (cluster.group != Cluster::kNoGroup) rest_calls(*step, cluster, chain);
  };
  co_await pipeline_.run(&step->clusters, std::move(calls), step->every_neuron);
  if (predictor_ && !step->every_neuron) count_predictions(*step);
  if (hot_ && predictor_ && !step->every_neuron && !store_.cache().holds_all()) report_cold(*step);
}

// To the hot region, which shares the cache with them. All rows of a prompt together name far more than any step after it does.
void ClusterFfn::report_cold(const Step& step) {
  if (!step.decodes) return;
  for (std::uint32_t g = 0; g < step.groups.size(); ++g) {
    const std::int16_t expert = step.groups[g].expert;
    const auto [first, count] = hot_->next_cluster(step.layer, expert);
    HotRegion::ColdUse use;
    for (const Cluster& cluster : step.clusters) {
      if (cluster.group != g) continue;
      use.named += static_cast<std::uint32_t>(cluster.blocks.size());
      use.hits += static_cast<std::uint32_t>(cluster.blocks.size() - cluster.loads.size());
      const auto begin = std::ranges::lower_bound(cluster.blocks, first), end = std::ranges::lower_bound(cluster.blocks, first + count);
      use.near += static_cast<std::uint32_t>(end - begin);
    }
    hot_->used_cold(step.layer, expert, step.sequences, use);
  }
}

// As many partial sums as each group of a step with so many rows may have.
std::uint32_t ClusterFfn::most_partials(std::uint32_t rows) const {
  return static_cast<std::uint32_t>(partials_.size() / (Bytes{4} * rows * store_.layout().width));
}

void ClusterFfn::count_predictions(const Step& step) {
  for (const Cluster& cluster : step.clusters) {
    if (step.predicted.empty()) predictions_.predicted += cluster.neurons->size();
    if (!step.predicted.empty()) predictions_.firing += cluster.active->size();
    predictions_.predicted_firing += computed(step, cluster)->size();
  }
  for (const IndexList& predicted : step.predicted) predictions_.predicted += predicted->size();
}

// Columns are shared out: each unit adds all partial sums of its own, group by group.
Task<void> ClusterFfn::reduce(const Step* step) {
  std::vector<std::uint32_t> count;
  for (const std::uint32_t hot : step->hot) count.push_back(hot > 0 ? 1 : 0);
  const std::vector<std::uint32_t> hot = count;
  for (const Cluster& cluster : step->clusters) {
    if (cluster.group != Cluster::kNoGroup) count[cluster.group] = hot[cluster.group] + cluster.partial + 1;
  }
  TaskScope scope(machine_.executor);
  const std::size_t units = options_.pipeline.units.size();
  for (std::size_t u = 0; u < units; ++u) {
    const Slice share = share_of(store_.layout().width, kTileRows, u, units);
    if (share.count == 0) continue;
    Chain chain;
    for (std::uint32_t g = 0; g < step->groups.size(); ++g) {
      KernelCall call;
      call.op = ops::Reduce{};
      call.variant = variant::kFloat;
      call.layer = step->layer;
      call.expert = step->groups[g].expert;
      call.batch = step->groups[g].rows;
      call.slice = share;
      View partials = partial(*step, g, 0);
      partials.shape = {count[g], partials.shape[0], partials.shape[1]};
      call.in = {std::move(partials)};
      call.out = {step->groups[g].out};
      chain.push_back(std::move(call));
      if (options_.adapters) options_.adapters->append_output(rows_of(*step, g), share, chain);
    }
    charge_dispatch(machine_.clock, chain);
    scope.spawn(run_chain(&graphs_, options_.pipeline.units[u], std::move(chain)));
  }
  co_await scope.join();
}

NeuronAdapters::Rows ClusterFfn::rows_of(const Step& step, std::uint32_t group) const {
  return {step.layer, &step.groups[group], step.first_row[group]};
}

Task<void> ClusterFfn::adapt_inputs(const Step* step) {
  Chain chain;
  for (std::uint32_t g = 0; g < step->groups.size(); ++g) options_.adapters->append_inputs(rows_of(*step, g), chain);
  if (!chain.empty()) co_await run_on_first(std::move(chain));
}

// Hot neurons first, then those of the clusters, which ascend.
Task<void> ClusterFfn::adapt_hidden(const Step* step) {
  Chain chain;
  for (std::uint32_t g = 0; g < step->groups.size(); ++g) {
    const auto rows = static_cast<std::uint32_t>(step->groups[g].rows->size());
    auto cold = std::make_shared<std::vector<std::uint32_t>>();
    for (const Cluster& cluster : step->clusters) {
      if (cluster.group != g) continue;
      const IndexList neurons = computed(*step, cluster);
      cold->insert(cold->end(), neurons->begin(), neurons->end());
    }
    std::vector<NeuronAdapters::Hidden> parts;
    if (step->hot[g] > 0) parts.push_back(hot_->hidden(step->layer, step->groups[g].expert, step->first_row[g], rows));
    View hidden;
    hidden.memory = hidden_;
    hidden.offset = Bytes{4} * step->first_row[g] * store_.neurons();
    hidden.shape = {rows, store_.neurons(), 0};
    parts.push_back({std::move(hidden), std::move(cold)});
    options_.adapters->append_hidden(rows_of(*step, g), parts, chain);
  }
  if (!chain.empty()) co_await run_on_first(std::move(chain));
}

Task<void> ClusterFfn::run_on_first(Chain chain) {
  charge_dispatch(machine_.clock, chain);
  co_await run_chain(&graphs_, options_.pipeline.units.front(), std::move(chain));
}

}  // namespace vitro
