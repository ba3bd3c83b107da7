#include "engine/parts/weights/residency.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

constexpr std::uint32_t kLoadDepth = 4;
constexpr Bytes kLoadRequest = MiB;  // large enough for full sequential bandwidth on UFS 4.0 (PowerInfer-2 2.3.2: 512 KiB)

struct ReadPlan {
  const Weight* weight;
  Lease into;
  Bytes into_offset, step, next;
};

Task<void> read_lane(Machine* machine, ReadPlan* plan, UnitId issuer, TaskScope* scope) {
  while (plan->next < plan->weight->extent.length && !scope->stop_requested()) {
    const Bytes offset = plan->next;
    const Bytes length = std::min(plan->step, plan->weight->extent.length - offset);
    plan->next += length;
    ReadRequest request;
    request.from = {plan->weight->extent.file, plan->weight->extent.offset + offset, length};
    request.into = plan->into;
    request.into_offset = plan->into_offset + offset;
    request.issuer = issuer;
    request.pattern = Pattern::sequential;
    const IoResult result = co_await machine->storage.read(std::move(request));
    if (!result.status.ok()) throw RunError(fmt::format("loading {}: {}", plan->weight->name, result.status.message));
  }
}

}  // namespace

Task<void> read_weight(Machine* machine, const Weight* weight, Lease into, Bytes into_offset, UnitId issuer, std::uint32_t depth) {
  const Bytes step = std::min(kLoadRequest, machine->storage.caps().max_transfer);
  ReadPlan plan{weight, std::move(into), into_offset, step, 0};
  TaskScope scope(machine->executor);
  for (std::uint32_t lane = 0; lane < depth; ++lane) scope.spawn(read_lane(machine, &plan, issuer, &scope));
  co_await scope.join();
}

Result<Lease> lease_weights(Machine& machine, Bytes size, Format format, Region region, bool in_places) {
  for (const ComputeUnit* unit : machine.units) {
    const UnitCaps& caps = unit->caps();
    const std::vector<Format>& formats = in_places ? caps.in_places : caps.as_stored;
    if (std::ranges::find(formats, format) == formats.end()) continue;
    if (Result<Lease> mapped = machine.memory.lease(size, caps.maps, region); mapped.ok()) return mapped;
  }
  return machine.memory.lease(size, Placement::dram, region);
}

DenseResidency::DenseResidency(Machine& machine, const WeightStore& weights, bool predictors)
    : machine_(machine), weights_(weights), predictors_(predictors) {}

bool DenseResidency::is_kept(const Weight& weight) const {
  return weight.role != Role::ffn_bundle && weight.role != Role::ffn_scales && (predictors_ || !is_predictor(weight.role));
}

Task<void> DenseResidency::load() {
  Bytes needed = 0;
  for (const Weight& weight : weights_.all()) needed += is_kept(weight) ? round_up(weight.extent.length, kPageSize) : 0;
  const Budget& budget = machine_.memory.budget(Placement::dram);
  if (needed > budget.limit - budget.used) {
    throw ConfigError(
        fmt::format("memory.budget: this policy keeps {} of weights in DRAM, but only {} of {} are free (raise the budget, or use "
                    "a policy that reads flash, such as mmap)",
                    format_bytes(needed), format_bytes(budget.limit - budget.used), format_bytes(budget.limit)));
  }
  for (const Weight& weight : weights_.all()) {
    if (!is_kept(weight)) continue;
    const Region region = is_predictor(weight.role) ? Region::predictor : Region::fixed;
    const bool products = weight.layer >= 0 && weight.rows > 1;  // an accelerator has those of layers
    Lease lease = (products ? lease_weights(machine_, weight.extent.length, weight.format, region)
                            : machine_.memory.lease(weight.extent.length, Placement::dram, region))
                      .value_or_throw();
    leases_[&weight] = lease;
    machine_.trace.decision("load", weight.name, "dram");
    co_await read_weight(&machine_, &weight, std::move(lease), 0, machine_.units.front()->caps().id, kLoadDepth);
  }
}

View DenseResidency::view(const Weight& weight, std::uint32_t expert) const {
  View view;
  view.memory = leases_.at(&weight);
  view.offset = expert * weight.matrix_bytes();
  view.shape = {weight.rows, weight.columns, 0};
  view.format = weight.format;
  view.layout = weight.layout;
  return view;
}

}  // namespace vitro
