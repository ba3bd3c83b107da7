#include "engine/parts/ffn/neuron_cluster/neuron_adapters.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

constexpr Role kOfFfn[] = {Role::ffn_gate, Role::ffn_up, Role::ffn_down};

// The first rows of a matrix.
View of_first(View matrix, std::uint32_t rows) {
  matrix.shape[0] = rows;
  return matrix;
}

// Of a matrix of floats.
View rows_between(View matrix, std::uint32_t first, std::uint32_t end) {
  matrix.offset += Bytes{4} * first * matrix.shape[1];
  matrix.shape[0] = end - first;
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

// Whether Gate and Up of the run's adapter are halves of one matrix, so that A x serves both.
bool NeuronAdapters::shares_input(const Rows& rows, const AdapterRun& run) const {
  const LoraBank::Pair *gate = bank_.find(run.adapter, Role::ffn_gate, rows.layer), *up = bank_.find(run.adapter, Role::ffn_up, rows.layer);
  return gate != nullptr && up != nullptr && gate->a.memory.id() == up->a.memory.id() && gate->a.offset == up->a.offset;
}

// The rows of B A that belong to the named neurons of the first `count`: rows of `other`, weighted by each neuron's row of `by_neuron`. One
// sum for each stretch of neurons that stand together: no other rows are touched, since other units compute those.
View NeuronAdapters::multiply(const KernelCall& base, Role role, const IndexList& neurons, std::uint32_t count, const View& by_neuron,
                              const View& other, Chain& chain) const {
  const View product = bank_.product(role, base.layer);
  const auto append = [&](std::uint32_t first, std::uint32_t end) {
    KernelCall& sum = chain.emplace_back(base);
    sum.op = ops::Accumulate{};
    sum.rows = nullptr;
    sum.in = {other, rows_between(by_neuron, first, end)};
    sum.out = {rows_between(product, first, end)};
  };
  if (neurons == nullptr) {
    append(0, count);
    return of_first(product, count);
  }
  for (auto first = neurons->begin(); first != neurons->end();) {
    auto last = first;
    while (std::next(last) != neurons->end() && *std::next(last) == *last + 1) ++last;
    append(*first, *last + 1);
    first = std::next(last);
  }
  return of_first(product, count);
}

void NeuronAdapters::append_inputs(const Rows& rows, Chain& chain) const {
  for (const Role role : {Role::ffn_gate, Role::ffn_up}) {
    for_each_pair(role, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
      if (multiplies() || (role == Role::ffn_up && shares_input(rows, run))) return;
      KernelCall& product = chain.emplace_back(call(ops::AddProduct{1, false}, rows));
      product.in = {pair.a, rows_of_run(rows.group->x, run)};
      product.out = {narrow(role, rows, run, pair.a.shape[0])};
    });
  }
}

void NeuronAdapters::append_added(Role role, const Rows& rows, const IndexList& neurons, const View& products, Chain& chain) const {
  for_each_pair(role, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
    KernelCall product = call(ops::AddProduct{pair.scale}, rows);
    product.rows = neurons;
    if (multiplies()) {
      product.in = {multiply(product, role, neurons, products.shape[1], pair.b, pair.a, chain), rows_of_run(rows.group->x, run)};
    } else {
      const Role input = role == Role::ffn_up && shares_input(rows, run) ? Role::ffn_gate : role;
      product.in = {of_first(pair.b, products.shape[1]), narrow(input, rows, run, pair.b.shape[1])};
    }
    product.out = {rows_of_run(products, run)};
    chain.push_back(std::move(product));
  });
}

void NeuronAdapters::append_hidden(const Rows& rows, const std::vector<Hidden>& parts, Chain& chain) const {
  for_each_pair(Role::ffn_down, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
    bool continues = false;
    for (const Hidden& part : parts) {
      KernelCall sum = call(ops::Accumulate{multiplies() || std::exchange(continues, true)}, rows);
      sum.rows = part.neurons;
      const std::uint32_t count = part.values.shape[1];
      View weights = of_first(pair.a, count);
      if (multiplies()) weights = multiply(sum, Role::ffn_down, part.neurons, count, pair.a, pair.b, chain);
      sum.in = {std::move(weights), rows_of_run(part.values, run)};
      sum.out = {multiplies() ? rows_of_run(rows.group->out, run) : narrow(Role::ffn_down, rows, run, pair.a.shape[1])};
      chain.push_back(std::move(sum));
    }
  });
}

void NeuronAdapters::append_output(const Rows& rows, Slice slice, Chain& chain) const {
  if (multiplies()) return;
  for_each_pair(Role::ffn_down, rows, [&](const AdapterRun& run, const LoraBank::Pair& pair) {
    KernelCall& product = chain.emplace_back(call(ops::AddProduct{pair.scale}, rows));
    product.slice = slice;
    product.in = {pair.b, narrow(Role::ffn_down, rows, run, pair.b.shape[1])};
    product.out = {rows_of_run(rows.group->out, run)};
  });
}

}  // namespace vitro
