#include "engine/parts/ffn/experts/tiered_experts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/rng.hpp"
#include "engine/graph/lowering.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/ffn/experts/pool_views.hpp"
#include "engine/parts/placement/charge_dispatch.hpp"

namespace vitro {
namespace {

constexpr std::uint64_t kRankStream = 0x72616e6b;  // "rank"

}  // namespace

TieredExperts::TieredExperts(Machine& machine, GraphCache& graphs, const WeightStore& weights, Residency& residency, TieredOptions options)
    : machine_(machine), weights_(weights), residency_(residency), runner_(machine, residency, graphs), options_(std::move(options)) {
  VITRO_CHECK(!options_.cores.empty() && !options_.placements.empty(), "experts without cores or layers");
  if (options_.asked.prompts != VariantId::none) options_.graph_rows = std::max(options_.graph_rows, options_.decode_rows + 1);
  if (!options_.layers.loads.empty()) monitor_.emplace(options_.layers.shares, options_.layers.tiers.chunk);
  for (const LayerPlacement& placement : options_.placements) most_slices_ = std::max(most_slices_, placement.rows);
  if (options_.layers.placer) most_slices_ = std::max(most_slices_, options_.layers.placer->most_rows(options_.layers.loads));
  // Experts that load() moves to another graph may have a larger slice there, but none beyond the largest of their layer.
  for (const LayerLoad& load : options_.layers.loads) {
    if (!options_.layers.cold_by_time) break;
    const std::uint32_t most = *std::max_element(load.capacity.begin(), load.capacity.end());
    most_slices_ = std::max(most_slices_, most * static_cast<std::uint32_t>(load.capacity.size()));
  }
  if (options_.layers.drift) most_slices_ *= 2;
  if (options_.on_cores) return;  // it has activations of its own
  std::vector<std::uint32_t> most(options_.units.size(), 1);
  for (const LayerPlacement& layer : options_.placements) {
    for (const StaticGroup& group : layer.groups) most[group.unit] = std::max(most[group.unit], group.capacity);
  }
  for (const LayerLoad& load : options_.layers.loads) {  // whichever of them load() puts where
    const std::uint32_t largest = *std::max_element(load.capacity.begin(), load.capacity.end());
    for (std::uint32_t& rows : most) rows = std::max(rows, largest);
  }
  for (const std::uint32_t rows : most) scratch_rows_ = std::max(scratch_rows_, rows);
  for (const std::uint32_t rows : most) unit_scratch_.push_back(make_scratch(rows));
  core_scratch_ = make_scratch(options_.max_rows * options_.experts_used);
}

TieredExperts::~TieredExperts() {
  unload_graphs();
}

TieredExperts::Scratch TieredExperts::make_scratch(std::uint32_t rows) {
  Scratch scratch;
  for (Lease* buffer : {&scratch.gate, &scratch.up, &scratch.hidden}) {
    const Bytes bytes = options_.activations.block_bytes() * rows * options_.ffn;
    Result<Lease> lease = machine_.memory.lease(bytes, Placement::dram, Region::activation);
    if (!lease.ok()) throw ConfigError("memory.budget: no room for the activations of experts: " + lease.status().message);
    *buffer = std::move(lease).value();
  }
  return scratch;
}

View TieredExperts::wide(const Lease& lease, std::uint32_t first, std::uint32_t count) const {
  View view;
  view.memory = lease;
  view.offset = options_.activations.block_bytes() * first * options_.ffn;
  view.shape = {count, options_.ffn, 0};
  view.format = options_.activations;
  return view;
}

std::uint32_t TieredExperts::grain(Role role, std::int16_t layer) const {
  return std::max(kTileRows, group_rows(weights_.get(role, in_model(layer)).layout));
}

KernelCall TieredExperts::call(Op op, std::int16_t layer, std::uint16_t expert, Batch batch) const {
  KernelCall call;
  call.op = op;
  call.variant = options_.asked.all == variant::kReference ? variant::kReference : variant::kFloat;
  call.layer = in_model(layer);
  call.expert = static_cast<std::int16_t>(expert);
  call.batch = std::move(batch);
  return call;
}

KernelCall TieredExperts::product(ProductOf by, Role role, std::int16_t layer, std::uint16_t expert, Batch batch, View x, View out,
                                  Slice slice) const {
  const Weight& weight = weights_.get(role, in_model(layer));
  KernelCall product = call(ops::Matmul{}, layer, expert, std::move(batch));
  product.variant = product_contract(options_.asked, by, weight.format, weight.layout);
  product.slice = slice;
  product.in = {residency_.view(weight, expert), std::move(x)};
  product.out = {std::move(out)};
  return product;
}

// Gate, up and activation of a slice of the neurons; rows of scratch from `first` on.
void TieredExperts::append_gated(ProductOf by, Chain& chain, std::int16_t layer, std::uint16_t expert, const Batch& batch, const View& x,
                                 const Scratch& scratch, std::uint32_t first, Slice slice) const {
  const std::uint32_t rows = x.shape[0];
  const View gate = wide(scratch.gate, first, rows), up = wide(scratch.up, first, rows);
  chain.push_back(product(by, Role::ffn_gate, layer, expert, batch, x, gate, slice));
  chain.push_back(product(by, Role::ffn_up, layer, expert, batch, x, up, slice));
  KernelCall glu = call(ops::Glu{options_.activation}, layer, expert, batch);
  glu.slice = slice;
  glu.in = {gate, up};
  glu.out = {wide(scratch.hidden, first, rows)};
  chain.push_back(std::move(glu));
}

std::uint32_t TieredExperts::pool_rows(std::uint32_t rows) const {
  return most_slices_ + rows * options_.experts_used;
}

ExpertPlan TieredExperts::admit(std::int16_t model_layer, const std::vector<ExpertChoice>& choices, const RowNorms& norms) {
  const auto layer = static_cast<std::int16_t>(model_layer - options_.first_layer);
  const LayerPlacement& placement = options_.placements.at(static_cast<std::size_t>(layer));
  is_prompt_ = choices.size() > options_.decode_rows;
  in_graphs_ = choices.size() >= options_.graph_rows && !placement.groups.empty();
  const auto rank = [&]() -> std::vector<float> {
    // Reading a row and comparing it with others, at the price of a decision; only where a slice overflows.
    machine_.clock.charge(PolicyWork::plan_step, static_cast<std::uint32_t>(choices.size()));
    if (options_.ranking == Ranking::attention_output && norms) return norms();
    if (options_.ranking != Ranking::random) return {};
    std::vector<float> any(choices.size());
    for (std::size_t row = 0; row < any.size(); ++row)
      any[row] = static_cast<float>(to_unit(mix(machine_.seed, {kRankStream, static_cast<std::uint64_t>(layer), stats_.layers, row})));
    return any;
  };
  observe(layer, choices);
  admitted_ = vitro::admit(choices, placement, options_.overflow, !in_graphs_, rank);
  if (in_graphs_) overflowed_ += admitted_.overflowed, in_graphs_pairs_ += admitted_.pairs;
  if (admitted_.overflowed > 0) stats_.ranked_by = !admitted_.ranked ? Ranking::router_weight : options_.ranking;
  machine_.clock.charge(PolicyWork::plan_step, static_cast<std::uint32_t>(admitted_.pairs));
  ++stats_.layers;
  stats_.pairs += admitted_.pairs;
  stats_.dropped += admitted_.dropped;
  stats_.on_cores += admitted_.on_cores;
  if (!options_.exact) stats_.padded += admitted_.padded;
  for (std::size_t e = 0; e < admitted_.dropped_of.size() && machine_.trace.enabled(); ++e) {
    if (admitted_.dropped_of[e] == 0) continue;
    machine_.trace.decision("drop", fmt::format("layer {} expert {}: {} rows", model_layer, e, admitted_.dropped_of[e]), "");
  }
  return admitted_.plan;
}

Chain TieredExperts::gather(std::int16_t layer, const RoutedStep& step, std::uint32_t first, std::uint32_t count) const {
  KernelCall gather = call(ops::Gather{}, layer, 0, step.rows);
  gather.expert = -1;
  gather.in = {step.x, part_of_pool(step.chosen, first, count)};
  gather.out = {part_of_pool(step.packed, first, count)};
  return {std::move(gather)};
}

Task<void> TieredExperts::run_chain(ComputeUnit* unit, Chain chain) {
  charge_dispatch(machine_.clock, chain);
  const RunResult result = co_await unit->run(std::move(chain));
  result.status.or_throw();
}

// Packing, and the one launch of a group. Groups pack on cores of their own.
Task<void> TieredExperts::run_group(std::int16_t layer, std::size_t index, const RoutedStep* step) {
  const StaticGroup& group = options_.placements[static_cast<std::size_t>(layer)].groups[index];
  if (options_.exact) co_return co_await run_exact(layer, index, step);
  co_await run_chain(options_.cores[index % options_.cores.size()], gather(layer, *step, group.first, group.rows()));
  Bindings bindings;
  for (std::uint32_t i = 0; i < group.experts.size(); ++i) {
    bindings.views.push_back(part_of_pool(step->packed, group.first + i * group.capacity, group.capacity));
    bindings.views.push_back(part_of_pool(step->out, group.first + i * group.capacity, group.capacity));
  }
  machine_.clock.charge(PolicyWork::submit, 1);
  ++stats_.launches;
  const Graph graph = co_await graph_of(layer, index);
  const RunResult result = co_await options_.units[group.unit]->launch(graph, std::move(bindings));
  if (group.comes) slots_[group.unit]->used(static_cast<std::size_t>(layer) << 16 | index);
  result.status.or_throw();
}

// The same rows in a graph that has them alone: built, loaded, launched and let go.
Task<void> TieredExperts::run_exact(std::int16_t layer, std::size_t index, const RoutedStep* step) {
  const StaticGroup& group = options_.placements[static_cast<std::size_t>(layer)].groups[index];
  std::vector<std::uint32_t> rows;
  Chain packing;
  Bindings bindings;
  for (std::uint32_t i = 0; i < group.experts.size(); ++i) {
    const std::uint32_t first = group.first + i * group.capacity, count = rows.emplace_back(admitted_.taken[group.experts[i]]);
    if (count == 0) continue;
    packing.push_back(gather(layer, *step, first, count).front());
    bindings.views.push_back(part_of_pool(step->packed, first, count));
    bindings.views.push_back(part_of_pool(step->out, first, count));
  }
  if (packing.empty()) co_return;
  co_await run_chain(options_.cores[index % options_.cores.size()], std::move(packing));
  ComputeUnit* const unit = options_.units[group.unit];
  Result<Graph> graph = co_await unit->load(spec_of(layer, group, rows));
  if (!graph.ok()) throw RunError(graph.status().message);
  machine_.clock.charge(PolicyWork::submit, 1);
  ++stats_.launches;
  const RunResult result = co_await unit->launch(graph.value(), std::move(bindings));
  unit->unload(graph.value());
  result.status.or_throw();
}

Task<void> TieredExperts::on_all_cores(std::vector<Chain> chains) {
  TaskScope scope(machine_.executor);
  for (std::size_t core = 0; core < chains.size(); ++core) {
    if (!chains[core].empty()) scope.spawn(run_chain(options_.cores[core], std::move(chains[core])));
  }
  co_await scope.join();
}

Batch TieredExperts::members(const ExpertPlan::Group& expert, const RoutedStep& step) const {
  std::vector<SeqPos> members;
  for (std::uint32_t i = 0; i < expert.count; ++i) members.push_back((*step.rows)[admitted_.plan.rows[expert.first + i]]);
  return std::make_shared<const std::vector<SeqPos>>(std::move(members));
}

Task<void> TieredExperts::pack_for_cores(std::int16_t layer, const RoutedStep* step) {
  const std::vector<ExpertPlan::Group>& experts = admitted_.plan.groups;
  const std::size_t cores = options_.cores.size();
  const std::uint32_t first = experts.front().first, count = experts.back().first + experts.back().count - first;
  std::vector<Chain> chains(cores);
  for (std::size_t core = 0; core < cores; ++core) {
    const Slice share = share_of(count, 1, core, cores);
    if (share.count > 0) chains[core] = gather(layer, *step, first + share.first, share.count);
  }
  co_await on_all_cores(std::move(chains));
}

// Every core carries its slice of the neurons through all experts, then its slice of their outputs.
Task<void> TieredExperts::run_on_cores(std::int16_t layer, const RoutedStep* step) {
  const std::vector<ExpertPlan::Group>& experts = admitted_.plan.groups;
  const std::size_t cores = options_.cores.size();
  const std::uint32_t first = experts.front().first;
  const bool one_row = step->rows->size() == 1;  // needs no packing
  if (!one_row) co_await pack_for_cores(layer, step);
  std::vector<Chain> gated(cores), down(cores);
  for (const ExpertPlan::Group& expert : experts) {
    const Batch batch = members(expert, *step);
    const View x = one_row ? step->x : part_of_pool(step->packed, expert.first, expert.count);
    for (std::size_t core = 0; core < cores; ++core) {
      const Slice neurons = share_of(options_.ffn, grain(Role::ffn_gate, layer), core, cores);
      const Slice columns = share_of(options_.width, grain(Role::ffn_down, layer), core, cores);
      if (neurons.count > 0)
        append_gated(on_cores(), gated[core], layer, expert.expert, batch, x, core_scratch_, expert.first - first, neurons);
      if (columns.count == 0) continue;
      down[core].push_back(product(on_cores(), Role::ffn_down, layer, expert.expert, batch,
                                   wide(core_scratch_.hidden, expert.first - first, expert.count),
                                   part_of_pool(step->out, expert.first, expert.count), columns));
    }
  }
  co_await on_all_cores(std::move(gated));
  co_await on_all_cores(std::move(down));
}

// In steps of planning, since that is what a policy can ask of its core; free where they are.
void TieredExperts::charge_host(std::size_t rows) {
  if (options_.host_per_token.count() == 0) return;
  const Picoseconds before = machine_.clock.now();
  machine_.clock.charge(PolicyWork::plan_step, 1);
  const Picoseconds step = machine_.clock.now() - before;
  if (step.count() == 0) return;
  machine_.clock.charge(PolicyWork::plan_step, static_cast<std::uint32_t>(options_.host_per_token * rows / step));
}

Task<void> TieredExperts::run(std::int16_t model_layer, RoutedStep step) {
  const auto layer = static_cast<std::int16_t>(model_layer - options_.first_layer);
  charge_host(step.rows->size());
  const std::size_t groups = in_graphs_ ? options_.placements[static_cast<std::size_t>(layer)].groups.size() : 0;
  if (options_.on_cores || !residency_.stays()) {
    if (options_.graphs_of_launches) options_.graphs_of_launches->clear();  // those of the layer before
    if (options_.on_cores) co_return co_await run_by_neuron(layer, &step, groups);
    if (keeps_) co_return co_await run_kept(layer, &step, groups);
    co_return co_await run_staged(layer, &step, groups);
  }
  const bool cores = !admitted_.plan.groups.empty();
  if (!options_.side_by_side) {
    for (std::size_t g = 0; g < groups; ++g) co_await run_group(layer, g, &step);
    if (cores) co_await run_on_cores(layer, &step);
    co_return;
  }
  TaskScope scope(machine_.executor);
  for (std::size_t g = 0; g < groups; ++g) scope.spawn(run_group(layer, g, &step));
  if (cores) scope.spawn(run_on_cores(layer, &step));
  co_await scope.join();
}

}  // namespace vitro
