// Experts whose weights come as they are needed: the residency hears of every matrix before it is computed, and brings it. Or they lie as
// neurons behind a cache, which brings those.
#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/graph/lowering.hpp"
#include "engine/parts/ffn/experts/pool_views.hpp"
#include "engine/parts/ffn/experts/tiered_experts.hpp"
#include "engine/parts/placement/charge_dispatch.hpp"

namespace vitro {
namespace {

const std::vector<Role> kGated{Role::ffn_gate, Role::ffn_up}, kDown{Role::ffn_down},
    kMatrices{Role::ffn_gate, Role::ffn_up, Role::ffn_down};

}  // namespace

WeightUse TieredExperts::use(Role role, std::int16_t layer, std::uint16_t expert, Slice slice) const {
  const Weight& weight = weights_.get(role, in_model(layer));
  const Bytes matrix = expert * weight.matrix_bytes(), row = weight.matrix_bytes() / weight.rows;
  if (slice.count == ~0u) return {&weight, matrix, weight.matrix_bytes()};
  return {&weight, matrix + slice.first * row, std::min(slice.count, weight.rows - slice.first) * row};
}

std::vector<WeightUse> TieredExperts::uses(const std::vector<Role>& roles, std::int16_t layer, std::uint16_t expert, Slice slice) const {
  std::vector<WeightUse> uses;
  for (const Role role : roles) uses.push_back(use(role, layer, expert, slice));
  return uses;
}

std::vector<WeightUse> TieredExperts::uses(const StaticGroup& group, std::int16_t layer) const {
  std::vector<WeightUse> all;
  for (const std::uint16_t expert : group.experts) std::ranges::copy(uses(kMatrices, layer, expert, {}), std::back_inserter(all));
  return all;
}

// Each core's share of the matrices' outputs, by so many that their weights are what the residency wants to wait for at once.
std::vector<TieredExperts::Piece> TieredExperts::pieces(std::uint32_t outputs, const std::vector<Role>& roles, std::int16_t layer) const {
  Bytes row = 0;
  for (const Role role : roles) {
    const Weight& weight = weights_.get(role, in_model(layer));
    row += weight.matrix_bytes() / weight.rows;
  }
  std::uint32_t step = kTileRows;
  for (const Role role : roles) step = std::max(step, grain(role, layer));
  const Bytes rows = std::min<Bytes>(residency_.item_bytes() / row, ~0u) / step * step;
  const auto most = static_cast<std::uint32_t>(std::max<Bytes>(rows, step));
  std::vector<Piece> pieces;
  for (std::size_t core = 0; core < options_.cores.size(); ++core) {
    const Slice share = share_of(outputs, step, core, options_.cores.size());
    for (std::uint32_t done = 0; done < share.count; done += most) {
      pieces.push_back({core, {share.first + done, std::min(most, share.count - done)}});
    }
  }
  return pieces;
}

// Whatever the router chooses: every group, and every expert on the cores.
void TieredExperts::check_room() const {
  UnitQueues all(1);
  for (std::int16_t layer = 0; layer < static_cast<std::int16_t>(options_.placements.size()); ++layer) {
    const LayerPlacement& placement = options_.placements[static_cast<std::size_t>(layer)];
    for (const StaticGroup& group : placement.groups) all[0].push_back({{}, uses(group, layer)});
    for (std::uint16_t expert = 0; expert < placement.capacity.size(); ++expert) {
      for (const Piece& piece : pieces(options_.ffn, kGated, layer)) all[0].push_back({{}, uses(kGated, layer, expert, piece.outputs)});
      for (const Piece& piece : pieces(options_.width, kDown, layer)) all[0].push_back({{}, uses(kDown, layer, expert, piece.outputs)});
    }
  }
  residency_.check_room(all);
}

// That a graph of the group computes: those of its slice, or just those that there are.
std::uint32_t TieredExperts::rows_of(const StaticGroup& group, std::uint16_t expert) const {
  return options_.exact ? admitted_.taken[expert] : group.capacity;
}

// What a graph of the group computes, with everything bound at launch; of exact shapes maybe nothing.
WorkItem TieredExperts::group_item(std::int16_t layer, const StaticGroup& group, const RoutedStep& step) const {
  WorkItem item;
  for (std::uint32_t i = 0; i < group.experts.size(); ++i) {
    const std::uint16_t expert = group.experts[i];
    const std::uint32_t first = group.first + i * group.capacity, count = rows_of(group, expert);
    if (count == 0) continue;
    const Batch batch = rows_for_nobody(count);
    append_gated(kInGraph, item.calls, layer, expert, batch, part_of_pool(step.packed, first, count), unit_scratch_[group.unit], 0, {});
    item.calls.push_back(product(kInGraph, Role::ffn_down, layer, expert, batch, wide(unit_scratch_[group.unit].hidden, 0, count),
                                 part_of_pool(step.out, first, count), {}));
    std::ranges::copy(uses(kMatrices, layer, expert, {}), std::back_inserter(item.uses));
  }
  return item;
}

// Those that are there first: they are computed while others come.
std::vector<ExpertPlan::Group> TieredExperts::in_order_of_arrival(std::int16_t layer) const {
  std::vector<ExpertPlan::Group> experts = admitted_.plan.groups;
  std::ranges::stable_partition(experts, [&](const ExpertPlan::Group& e) { return residency_.here(in_model(layer), e.expert); });
  return experts;
}

void TieredExperts::queue_gated(std::int16_t layer, const RoutedStep& step, UnitQueues& queues) const {
  const std::vector<ExpertPlan::Group> experts = in_order_of_arrival(layer);
  const std::uint32_t first = admitted_.plan.groups.empty() ? 0 : admitted_.plan.groups.front().first;
  const std::vector<Piece> pieces = this->pieces(options_.ffn, kGated, layer);
  for (const ExpertPlan::Group& expert : experts) {
    const Batch batch = members(expert, step);
    const View x = step.rows->size() == 1 ? step.x : part_of_pool(step.packed, expert.first, expert.count);
    for (const Piece& piece : pieces) {
      WorkItem item;
      append_gated(on_cores(), item.calls, layer, expert.expert, batch, x, core_scratch_, expert.first - first, piece.outputs);
      item.uses = uses(kGated, layer, expert.expert, piece.outputs);
      queues[piece.core].push_back(std::move(item));
    }
  }
}

void TieredExperts::queue_down(std::int16_t layer, const RoutedStep& step, UnitQueues& queues) const {
  const std::vector<ExpertPlan::Group> experts = in_order_of_arrival(layer);
  const std::uint32_t first = admitted_.plan.groups.empty() ? 0 : admitted_.plan.groups.front().first;
  const std::vector<Piece> pieces = this->pieces(options_.width, kDown, layer);
  for (const ExpertPlan::Group& expert : experts) {
    const Batch batch = members(expert, step);
    const View hidden = wide(core_scratch_.hidden, expert.first - first, expert.count);
    for (const Piece& piece : pieces) {
      const View out = part_of_pool(step.out, expert.first, expert.count);
      queues[piece.core].push_back({{product(on_cores(), Role::ffn_down, layer, expert.expert, batch, hidden, out, piece.outputs)},
                                    uses(kDown, layer, expert.expert, piece.outputs)});
    }
  }
}

// The first queues are the cores', the ones behind them those of the units that run graphs.
Task<void> TieredExperts::run_phase(UnitQueues queues) {
  std::size_t calls = 0;
  for (const std::vector<WorkItem>& queue : queues) {
    for (const WorkItem& item : queue) calls += item.calls.size();
  }
  if (calls == 0) co_return;
  machine_.clock.charge(PolicyWork::plan_step, static_cast<std::uint32_t>(calls));
  std::vector<ComputeUnit*> units = options_.cores;
  units.insert(units.end(), options_.units.begin(), options_.units.end());
  co_await runner_.run(std::move(queues), std::move(units));
}

Task<void> TieredExperts::pack_pool(std::int16_t layer, const RoutedStep* step) {
  std::vector<Chain> chains(options_.cores.size());
  for (std::size_t core = 0; core < chains.size(); ++core) {
    const Slice share = share_of(static_cast<std::uint32_t>(admitted_.plan.rows.size()), 1, core, chains.size());
    if (share.count > 0) chains[core] = gather(layer, *step, share.first, share.count);
  }
  co_await on_all_cores(std::move(chains));
}

// The whole pool is packed first. Then graphs run beside gate, up and activation on cores, or one after the other before them; then the
// cores' down.
Task<void> TieredExperts::run_staged(std::int16_t layer, const RoutedStep* step, std::size_t groups) {
  const std::size_t cores = options_.cores.size(), queues = cores + options_.units.size();
  if (groups > 0 || step->rows->size() > 1) co_await pack_pool(layer, step);
  UnitQueues first(queues), last(queues);
  for (std::size_t g = 0; g < groups; ++g) {
    const StaticGroup& group = options_.placements[static_cast<std::size_t>(layer)].groups[g];
    WorkItem item = group_item(layer, group, *step);
    if (item.calls.empty()) continue;
    first[cores + group.unit].push_back(std::move(item));
    ++stats_.launches;
    if (!options_.side_by_side) co_await run_phase(std::exchange(first, UnitQueues(queues)));
  }
  queue_gated(layer, *step, first);
  co_await run_phase(std::move(first));
  queue_down(layer, *step, last);
  co_await run_phase(std::move(last));
}

// Graphs whose experts stay, and on the cores such as come as they are needed.
Task<void> TieredExperts::run_kept(std::int16_t layer, const RoutedStep* step, std::size_t groups) {
  if (!options_.side_by_side) {
    for (std::size_t g = 0; g < groups; ++g) co_await run_group(layer, g, step);
    co_return co_await run_coming(layer, step);
  }
  TaskScope scope(machine_.executor);
  for (std::size_t g = 0; g < groups; ++g) scope.spawn(run_group(layer, g, step));
  scope.spawn(run_coming(layer, step));
  co_await scope.join();
}

Task<void> TieredExperts::run_coming(std::int16_t layer, const RoutedStep* step) {
  if (admitted_.plan.groups.empty()) co_return;
  if (step->rows->size() > 1) co_await pack_for_cores(layer, step);
  const std::size_t queues = options_.cores.size() + options_.units.size();
  UnitQueues gated(queues), down(queues);
  queue_gated(layer, *step, gated);
  co_await run_phase(std::move(gated));
  queue_down(layer, *step, down);
  co_await run_phase(std::move(down));
}

// Slices of graphs, then what the cores compute: neurons of both come through one cache, for one pipeline at a time.
Task<void> TieredExperts::run_by_neuron(std::int16_t layer, const RoutedStep* step, std::size_t groups) {
  co_await pack_pool(layer, step);
  std::vector<FfnGroup> slices, rest;
  for (std::size_t g = 0; g < groups; ++g) {
    const StaticGroup& group = options_.placements[static_cast<std::size_t>(layer)].groups[g];
    const std::size_t before = slices.size();
    for (std::uint32_t i = 0; i < group.experts.size(); ++i) {
      const std::uint32_t first = group.first + i * group.capacity, count = rows_of(group, group.experts[i]);
      if (count == 0) continue;
      slices.push_back({static_cast<std::int16_t>(group.experts[i]),
                        rows_for_nobody(count),
                        part_of_pool(step->packed, first, count),
                        part_of_pool(step->out, first, count),
                        {},
                        kInGraph.prompt});
    }
    if (slices.size() > before) ++stats_.launches;
  }
  for (const ExpertPlan::Group& expert : admitted_.plan.groups) {
    rest.push_back({static_cast<std::int16_t>(expert.expert),
                    members(expert, *step),
                    part_of_pool(step->packed, expert.first, expert.count),
                    part_of_pool(step->out, expert.first, expert.count),
                    {},
                    on_cores().prompt});
  }
  if (!slices.empty()) co_await options_.on_units->run(in_model(layer), std::move(slices));
  if (!rest.empty()) co_await options_.on_cores->run(in_model(layer), std::move(rest));
}

Task<void> TieredExperts::settle() {
  for (FfnBlock* block : {options_.on_units.get(), options_.on_cores.get()}) {
    if (block != nullptr) co_await block->settle();
  }
}

CacheStats TieredExperts::stats() const {
  CacheStats sum;
  for (const FfnBlock* block : {options_.on_units.get(), options_.on_cores.get()}) {
    if (block == nullptr) continue;
    sum.hits += block->stats().hits;
    sum.misses += block->stats().misses;
  }
  return sum;
}

}  // namespace vitro
