#include "engine/ffn/cluster_ffn.hpp"

#include <algorithm>
#include <numeric>

#include "engine/decode/lowering.hpp"
#include "engine/kernels/variants.hpp"

namespace vitro {
namespace {

// At least one per unit, so that clusters which add to the one before them still run side by side.
std::uint32_t most_partials(Bytes room, std::uint32_t rows, std::uint32_t width, std::size_t units) {
  return static_cast<std::uint32_t>(std::max<Bytes>(room / (Bytes{4} * rows * width), units));
}

Task<void> run_chain(ComputeUnit* unit, Chain chain) {
  const RunResult result = co_await unit->run(std::move(chain));
  result.status.or_throw();
}

}  // namespace

ClusterFfn::ClusterFfn(Machine& machine, NeuronStore& store, std::unique_ptr<Predictor> predictor, ClusterFfnOptions options)
    : machine_(machine),
      store_(store),
      predictor_(std::move(predictor)),
      options_(std::move(options)),
      pipeline_(machine, store, options_.pipeline) {
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
  lease(4 * rows * width *
            std::min<Bytes>(clusters,
                            most_partials(options_.partials, options_.max_rows, store_.layout().width, options_.pipeline.units.size())),
        partials_);
}

Task<void> ClusterFfn::run(std::int16_t layer, std::vector<FfnGroup> groups) {
  Step step;
  step.layer = layer;
  step.groups = std::move(groups);
  std::uint32_t rows = 0;
  for (const FfnGroup& group : step.groups) {
    step.first_row.push_back(rows);
    rows += static_cast<std::uint32_t>(group.rows->size());
  }
  VITRO_CHECK(rows <= options_.max_rows, "a step beyond its limits");
  step.every_neuron = rows >= options_.dense_rows * step.groups.size();
  std::vector<PlannedGroup> planned;
  for (const FfnGroup& group : step.groups) planned.push_back({&group, all_neurons_});
  if (predictor_ && !step.every_neuron) {
    const std::vector<IndexList> predicted = co_await predictor_->predict(layer, &step.groups);
    for (std::size_t g = 0; g < planned.size(); ++g) planned[g].neurons = predicted[g];
  }
  machine_.clock.charge(PolicyWork::plan_step, 1);
  ClusterPlanOptions plan;
  plan.cluster_neurons = options_.cluster_neurons;
  plan.partials = static_cast<std::uint32_t>(partials_.size() / (Bytes{4} * rows * store_.layout().width));
  step.clusters = plan_clusters(store_, layer, planned, plan);
  place_partials(step);

  ClusterCalls calls;
  calls.gate = [this, &step](const Cluster& cluster) { return gate_calls(step, cluster); };
  calls.rest = [this, &step](const Cluster& cluster) { return rest_calls(step, cluster); };
  co_await pipeline_.run(&step.clusters, std::move(calls), step.every_neuron);
  co_await reduce(&step);
}

void ClusterFfn::place_partials(Step& step) const {
  step.partial_count.assign(step.groups.size(), 0);
  for (const Cluster& cluster : step.clusters) step.partial_count[cluster.group] = cluster.partial + 1;
  Bytes at = 0;
  for (std::size_t g = 0; g < step.groups.size(); ++g) {
    step.partials.push_back(at);
    at += Bytes{4} * step.partial_count[g] * step.groups[g].rows->size() * store_.layout().width;
  }
  VITRO_CHECK(at <= partials_.size(), "more partial sums than there is room for");
}

KernelCall ClusterFfn::call(const Step& step, const Cluster& cluster, Op op) const {
  const FfnGroup& group = step.groups[cluster.group];
  KernelCall call;
  call.op = op;
  call.variant = variant::kFloat;
  call.layer = step.layer;
  call.expert = group.expert;
  call.batch = group.rows;
  return call;
}

View ClusterFfn::wide(const Lease& lease, const Step& step, const Cluster& cluster) const {
  View view;
  view.memory = lease;
  view.offset = Bytes{4} * step.first_row[cluster.group] * store_.neurons();
  view.shape = {static_cast<std::uint32_t>(step.groups[cluster.group].rows->size()), store_.neurons(), 0};
  return view;
}

View ClusterFfn::partial(const Step& step, std::uint32_t group, std::uint32_t first, std::uint32_t count) const {
  const auto rows = static_cast<std::uint32_t>(step.groups[group].rows->size());
  View view;
  view.memory = partials_;
  view.offset = step.partials[group] + Bytes{4} * first * rows * store_.layout().width;
  view.shape = {count, rows, store_.layout().width};
  return view;
}

IndexList ClusterFfn::places(const Step& step, const Cluster& cluster, const IndexList& neurons) const {
  auto out = std::make_shared<std::vector<std::uint32_t>>();
  out->reserve(neurons->size());
  auto load = cluster.loads.begin();
  std::uint32_t block = NeuronCache::kNone, slot = NeuronCache::kNone;
  for (const std::uint32_t neuron : *neurons) {
    const std::uint32_t its_block = store_.block_of(step.layer, step.groups[cluster.group].expert, neuron);
    if (its_block != block) {
      block = its_block;
      while (load != cluster.loads.end() && load->block < block) ++load;
      const bool loaded = load != cluster.loads.end() && load->block == block;
      slot = loaded ? load->slot : store_.cache().slot_of(block);
      VITRO_CHECK(slot != NeuronCache::kNone, "a neuron is computed that is not in DRAM");
    }
    out->push_back(store_.place(neuron, slot));
  }
  return out;
}

Chain ClusterFfn::gate_calls(const Step& step, const Cluster& cluster) const {
  KernelCall gate = call(step, cluster, Op::matmul);
  if (variant::supports(options_.matmul, store_.layout().format, Layout::rows)) gate.variant = options_.matmul;
  gate.rows = cluster.neurons;
  gate.places = places(step, cluster, cluster.neurons);
  gate.in = {store_.view(NeuronStore::Matrix::gate), step.groups[cluster.group].x};
  gate.out = {wide(gate_, step, cluster)};
  Chain chain;
  chain.push_back(std::move(gate));
  if (step.every_neuron) return chain;
  KernelCall select = call(step, cluster, Op::select);
  select.rows = cluster.neurons;
  select.in = {wide(gate_, step, cluster)};
  select.params = {options_.threshold, static_cast<float>(options_.activation), static_cast<float>(SelectOf::gate)};
  chain.push_back(std::move(select));
  return chain;
}

Chain ClusterFfn::rest_calls(const Step& step, const Cluster& cluster) const {
  Chain chain;
  const IndexList at = places(step, cluster, cluster.active);
  if (!cluster.active->empty()) {
    KernelCall up = call(step, cluster, Op::matmul);
    if (variant::supports(options_.matmul, store_.layout().format, Layout::rows)) up.variant = options_.matmul;
    up.rows = cluster.active;
    up.places = at;
    up.in = {store_.view(NeuronStore::Matrix::up), step.groups[cluster.group].x};
    up.out = {wide(up_, step, cluster)};
    chain.push_back(std::move(up));
    KernelCall glu = call(step, cluster, Op::glu);
    glu.rows = cluster.active;
    glu.in = {wide(gate_, step, cluster), wide(up_, step, cluster)};
    glu.out = {wide(hidden_, step, cluster)};
    glu.params = {static_cast<float>(options_.activation)};
    chain.push_back(std::move(glu));
  }
  KernelCall down = call(step, cluster, Op::accumulate);
  down.rows = cluster.active;
  down.places = at;
  down.in = {store_.view(NeuronStore::Matrix::down), wide(hidden_, step, cluster)};
  View sum = partial(step, cluster.group, cluster.partial, 1);
  sum.shape = {sum.shape[1], sum.shape[2], 0};
  down.out = {std::move(sum)};
  down.params = {cluster.continues ? 1.0f : 0.0f};
  chain.push_back(std::move(down));
  return chain;
}

// Columns are shared out: each unit adds all partial sums of its own, group by group.
Task<void> ClusterFfn::reduce(const Step* step) {
  TaskScope scope(machine_.executor);
  const std::size_t units = options_.pipeline.units.size();
  for (std::size_t u = 0; u < units; ++u) {
    const Slice share = share_of(store_.layout().width, kTileRows, u, units);
    if (share.count == 0) continue;
    Chain chain;
    for (std::uint32_t g = 0; g < step->groups.size(); ++g) {
      KernelCall call;
      call.op = Op::reduce;
      call.variant = variant::kFloat;
      call.layer = step->layer;
      call.expert = step->groups[g].expert;
      call.batch = step->groups[g].rows;
      call.slice = share;
      call.in = {partial(*step, g, 0, step->partial_count[g])};
      call.out = {step->groups[g].out};
      chain.push_back(std::move(call));
    }
    ++seam_calls_;
    machine_.clock.charge(PolicyWork::submit, 1);
    scope.spawn(run_chain(options_.pipeline.units[u], std::move(chain)));
  }
  co_await scope.join();
}

}  // namespace vitro
