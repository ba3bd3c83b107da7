#include "engine/parts/ffn/neuron_cluster/neuron_adapters.hpp"

#include <algorithm>

#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

constexpr Role kOfFfn[] = {Role::ffn_gate, Role::ffn_up, Role::ffn_down};

// The rows of a run in an operand [R, ...] of its group.
View of_first(View matrix, std::uint32_t rows) {
  matrix.shape[0] = rows;
  return matrix;
}

}  // namespace

bool NeuronAdapters::wanted(const LoraBank* bank) {
  return bank != nullptr && std::ranges::any_of(kOfFfn, [bank](Role role) { return bank->rank(role) > 0; });
}

NeuronAdapters::NeuronAdapters(Machine& machine, const LoraBank& bank, VariantId matmul, std::uint32_t max_rows)
    : bank_(bank), variant_(matmul == variant::kReference ? matmul : variant::kFloat) {
  for (const Role role : kOfFfn) {
    if (bank.rank(role) == 0) continue;
    Result<Lease> lease = machine.memory.lease(Bytes{4} * max_rows * bank.rank(role), Placement::dram, Region::activation);
    if (!lease.ok()) throw ConfigError("memory.budget: no room for the activations of adapters: " + lease.status().message);
    narrow_[role] = std::move(lease).value();
  }
}

KernelCall NeuronAdapters::call(Op op, const Rows& rows) const {
  KernelCall call;
  call.op = op;
  call.variant = variant_;
  call.layer = rows.layer;
  call.expert = rows.group->expert;
  call.batch = rows.group->rows;
  return call;
}

View NeuronAdapters::narrow(Role role, const Rows& rows, const AdapterRun& run, std::uint32_t rank) const {
  View view;
  view.memory = narrow_.at(role);
  view.offset = Bytes{4} * (rows.first + run.first) * bank_.rank(role);
  view.shape = {run.count, rank, 0};
  return view;
}

// Calls f(run, pair) for each run of the group's rows whose adapter has the matrix.
template <class F>
void NeuronAdapters::for_each_pair(Role role, const Rows& rows, F f) const {
  for (const AdapterRun& run : rows.group->adapters) {
    if (const LoraBank::Pair* pair = bank_.find(run.adapter, role, rows.layer)) f(run, *pair);
  }
}

void NeuronAdapters::append_inputs(const Rows& rows, Chain& chain) const {
  for (const Role role : {Role::ffn_gate, Role::ffn_up}) {
    for_each_pair(role, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
      KernelCall& product = chain.emplace_back(call(ops::AddProduct{1, false}, rows));
      product.in = {pair.a, rows_of_run(rows.group->x, run)};
      product.out = {narrow(role, rows, run, pair.a.shape[0])};
    });
  }
}

void NeuronAdapters::append_added(Role role, const Rows& rows, const IndexList& neurons, const View& products, Chain& chain) const {
  for_each_pair(role, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
    KernelCall& product = chain.emplace_back(call(ops::AddProduct{pair.scale}, rows));
    product.rows = neurons;
    product.in = {of_first(pair.b, products.shape[1]), narrow(role, rows, run, pair.b.shape[1])};
    product.out = {rows_of_run(products, run)};
  });
}

void NeuronAdapters::append_hidden(const Rows& rows, const std::vector<Hidden>& parts, Chain& chain) const {
  for_each_pair(Role::ffn_down, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
    bool continues = false;
    for (const Hidden& part : parts) {
      KernelCall& sum = chain.emplace_back(call(ops::Accumulate{std::exchange(continues, true)}, rows));
      sum.rows = part.neurons;
      sum.in = {of_first(pair.a, part.values.shape[1]), rows_of_run(part.values, run)};
      sum.out = {narrow(Role::ffn_down, rows, run, pair.a.shape[1])};
    }
  });
}

void NeuronAdapters::append_output(const Rows& rows, Slice slice, Chain& chain) const {
  for_each_pair(Role::ffn_down, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
    KernelCall& product = chain.emplace_back(call(ops::AddProduct{pair.scale}, rows));
    product.slice = slice;
    product.in = {pair.b, narrow(Role::ffn_down, rows, run, pair.b.shape[1])};
    product.out = {rows_of_run(rows.group->out, run)};
  });
}

}  // namespace vitro
