// The kernel calls of a cluster's two stages: operands, and where its neurons lie.
#include <algorithm>

#include "engine/ops/variants.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_ffn.hpp"

namespace vitro {

// Appends one to the chain, without operands.
KernelCall& ClusterFfn::add_call(const Step& step, const Cluster& cluster, Op op, Chain& chain) const {
  const FfnGroup& group = step.groups[cluster.group];
  KernelCall& call = chain.emplace_back();
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

// Of a product with one of the three matrices.
void ClusterFfn::operands(KernelCall& call, NeuronStore::Matrix matrix, View x) const {
  call.in.push_back(store_.view(matrix));
  call.in.push_back(std::move(x));
  store_.add_scales(call, matrix, call.layer, call.expert);
}

// Of all neurons of a cluster: what it loads stands at known places among them if each is a block.
IndexList ClusterFfn::row_offsets(const Step& step, const Cluster& cluster) const {
  if (store_.layout().per_block > 1) return row_offsets(step, cluster, cluster.neurons);
  const IndexListPool::List out = store_.lists().take();
  out->resize(cluster.neurons->size());
  std::size_t missing = store_.places(*cluster.neurons, store_.block_of(step.layer, step.groups[cluster.group].expert, 0), out->data());
  for (const BlockLoad& load : cluster.loads) {
    if (load.slot == NeuronCache::kNone) continue;
    (*out)[load.at] = store_.place((*cluster.neurons)[load.at], load.slot);
    missing -= store_.cache().resident(load.block) ? 0 : 1;
  }
  VITRO_CHECK(missing == 0, "a neuron is computed that is not in DRAM");
  return out;
}

IndexList ClusterFfn::row_offsets(const Step& step, const Cluster& cluster, const IndexList& neurons) const {
  const IndexListPool::List out = store_.lists().take(), missing = store_.lists().take();
  out->resize(neurons->size());
  missing->resize(neurons->size());
  const std::uint32_t base = store_.block_of(step.layer, step.groups[cluster.group].expert, 0);
  const std::size_t count = store_.places(*neurons, base, out->data(), missing->data());
  auto load = cluster.loads.begin();
  for (const std::uint32_t i : std::span(missing->data(), count)) {  // on its way through
    const std::uint32_t neuron = (*neurons)[i], block = base + store_.block_in_ffn(neuron);
    while (load != cluster.loads.end() && load->block < block) ++load;
    const bool loaded = load != cluster.loads.end() && load->block == block && load->slot != NeuronCache::kNone;
    VITRO_CHECK(loaded, "a neuron is computed that is not in DRAM");
    (*out)[i] = store_.place(neuron, load->slot);
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

void ClusterFfn::add_adapters(const Step& step, const Cluster& cluster, Role role, const IndexList& neurons, Chain& chain) const {
  if (!options_.adapters) return;
  const View products = wide(role == Role::ffn_gate ? gate_ : up_, step, cluster);
  options_.adapters->append_added(role, rows_of(step, cluster.group), neurons, products, chain);
}

VariantId ClusterFfn::contract(const Step& step) const {
  const ProductOf by{.prompt = step.groups.front().prompt, .accelerator = step.every_neuron && options_.dense_on_accelerator};
  return product_contract(options_.asked, by, store_.layout().format, Layout::rows);
}

void ClusterFfn::gate_calls(const Step& step, const Cluster& cluster, Chain& chain) const {
  KernelCall& gate = add_call(step, cluster, ops::Matmul{}, chain);
  gate.variant = contract(step);
  gate.activations = step.inputs[cluster.group];
  gate.rows = cluster.neurons;
  gate.row_offsets = row_offsets(step, cluster);
  operands(gate, NeuronStore::Matrix::gate, step.groups[cluster.group].x);
  gate.out.push_back(wide(gate_, step, cluster));
  add_adapters(step, cluster, Role::ffn_gate, cluster.neurons, chain);
  if (step.every_neuron) return;
  const std::vector<float>& thresholds = options_.thresholds;
  const float threshold = thresholds[thresholds.size() == 1 ? 0 : static_cast<std::size_t>(step.layer)];
  KernelCall& select = add_call(step, cluster, ops::Select{threshold, options_.activation, SelectOf::gate}, chain);
  select.rows = cluster.neurons;
  select.in.push_back(wide(gate_, step, cluster));
}

void ClusterFfn::rest_calls(const Step& step, const Cluster& cluster, Chain& chain) const {
  const IndexList active = computed(step, cluster), at = row_offsets(step, cluster, active);
  if (!active->empty()) {
    KernelCall& up = add_call(step, cluster, ops::Matmul{}, chain);
    up.variant = contract(step);
    up.activations = step.inputs[cluster.group];
    up.rows = active;
    up.row_offsets = at;
    operands(up, NeuronStore::Matrix::up, step.groups[cluster.group].x);
    up.out.push_back(wide(up_, step, cluster));
    add_adapters(step, cluster, Role::ffn_up, active, chain);
    KernelCall& glu = add_call(step, cluster, ops::Glu{options_.activation}, chain);
    glu.rows = active;
    glu.in.push_back(wide(gate_, step, cluster));
    glu.in.push_back(wide(up_, step, cluster));
    glu.out.push_back(wide(hidden_, step, cluster));
  }
  KernelCall& down = add_call(step, cluster, ops::Accumulate{cluster.continues}, chain);
  if (variant::adds_in_int8(contract(step), store_.layout().format)) down.variant = contract(step);
  down.rows = active;
  down.row_offsets = at;
  operands(down, NeuronStore::Matrix::down, wide(hidden_, step, cluster));
  // The accelerator's partial sum is the first: its neurons are.
  down.out.push_back(partial(step, cluster.group, cluster.partial + (step.hot[cluster.group] > 0 ? 1 : 0)));
}

}  // namespace vitro
