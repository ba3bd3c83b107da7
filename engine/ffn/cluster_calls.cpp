// The kernel calls of a cluster's two stages: operands, and where its neurons lie.
#include <algorithm>

#include "engine/ffn/cluster_ffn.hpp"
#include "engine/kernels/variants.hpp"

namespace vitro {

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

// One partial sum of a group, [R, width]; a group's follow each other.
View ClusterFfn::partial(const Step& step, std::uint32_t group, std::uint32_t index) const {
  const auto rows = static_cast<std::uint32_t>(step.groups[group].rows->size());
  View view;
  view.memory = partials_;
  view.offset = Bytes{4} * store_.layout().width * (Bytes{step.first_row[group]} * step.partials + Bytes{index} * rows);
  view.shape = {rows, store_.layout().width, 0};
  return view;
}

IndexList ClusterFfn::places(const Step& step, const Cluster& cluster, const IndexList& neurons) const {
  auto out = std::make_shared<std::vector<std::uint32_t>>(neurons->size());
  std::uint32_t* place = out->data();
  auto load = cluster.loads.begin();
  const std::uint32_t base = store_.block_of(step.layer, step.groups[cluster.group].expert, 0);
  std::uint32_t block = NeuronCache::kNone, slot = NeuronCache::kNone;
  for (const std::uint32_t neuron : *neurons) {
    const std::uint32_t its_block = base + store_.block_in_ffn(neuron);
    if (its_block != block) {
      block = its_block;
      while (load != cluster.loads.end() && load->block < block) ++load;
      const bool loaded = load != cluster.loads.end() && load->block == block;
      slot = loaded ? load->slot : store_.cache().slot_of(block);
      VITRO_CHECK(slot != NeuronCache::kNone, "a neuron is computed that is not in DRAM");
    }
    *place++ = store_.place(neuron, slot);
  }
  return out;
}

// Of a cluster's active neurons, those that the step goes on with.
IndexList ClusterFfn::computed(const Step& step, const Cluster& cluster) const {
  if (step.predicted.empty()) return cluster.active;
  const std::vector<std::uint32_t>& predicted = *step.predicted[cluster.group];
  auto both = std::make_shared<std::vector<std::uint32_t>>();
  std::set_intersection(cluster.active->begin(), cluster.active->end(), predicted.begin(), predicted.end(), std::back_inserter(*both));
  return both;
}

Chain ClusterFfn::gate_calls(const Step& step, const Cluster& cluster) const {
  KernelCall gate = call(step, cluster, Op::matmul);
  if (variant::supports(options_.matmul, store_.layout().format, Layout::rows)) gate.variant = options_.matmul;
  gate.rows = cluster.neurons;
  gate.places = places(step, cluster, cluster.neurons);
  gate.in = {store_.view(NeuronStore::Matrix::gate), step.groups[cluster.group].x};
  store_.add_scales(gate, NeuronStore::Matrix::gate, step.layer, gate.expert);
  gate.out = {wide(gate_, step, cluster)};
  Chain chain;
  chain.reserve(2);
  chain.push_back(std::move(gate));
  if (step.every_neuron) return chain;
  KernelCall select = call(step, cluster, Op::select);
  select.rows = cluster.neurons;
  select.in = {wide(gate_, step, cluster)};
  const std::vector<float>& thresholds = options_.thresholds;
  const float threshold = thresholds[thresholds.size() == 1 ? 0 : static_cast<std::size_t>(step.layer)];
  select.params = {threshold, static_cast<float>(options_.activation), static_cast<float>(SelectOf::gate)};
  chain.push_back(std::move(select));
  return chain;
}

Chain ClusterFfn::rest_calls(const Step& step, const Cluster& cluster) const {
  Chain chain;
  chain.reserve(3);
  const IndexList active = computed(step, cluster), at = places(step, cluster, active);
  if (!active->empty()) {
    KernelCall up = call(step, cluster, Op::matmul);
    if (variant::supports(options_.matmul, store_.layout().format, Layout::rows)) up.variant = options_.matmul;
    up.rows = active;
    up.places = at;
    up.in = {store_.view(NeuronStore::Matrix::up), step.groups[cluster.group].x};
    store_.add_scales(up, NeuronStore::Matrix::up, step.layer, up.expert);
    up.out = {wide(up_, step, cluster)};
    chain.push_back(std::move(up));
    KernelCall glu = call(step, cluster, Op::glu);
    glu.rows = active;
    glu.in = {wide(gate_, step, cluster), wide(up_, step, cluster)};
    glu.out = {wide(hidden_, step, cluster)};
    glu.params = {static_cast<float>(options_.activation)};
    chain.push_back(std::move(glu));
  }
  KernelCall down = call(step, cluster, Op::accumulate);
  if (variant::adds_in_int8(options_.matmul, store_.layout().format)) down.variant = options_.matmul;
  down.rows = active;
  down.places = at;
  down.in = {store_.view(NeuronStore::Matrix::down), wide(hidden_, step, cluster)};
  store_.add_scales(down, NeuronStore::Matrix::down, step.layer, down.expert);
  // The accelerator's partial sum is the first: its neurons are.
  down.out = {partial(step, cluster.group, cluster.partial + (step.hot[cluster.group] > 0 ? 1 : 0))};
  down.params = {cluster.continues ? 1.0f : 0.0f};
  chain.push_back(std::move(down));
  return chain;
}

}  // namespace vitro
