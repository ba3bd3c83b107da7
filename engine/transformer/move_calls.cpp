// The calls of operators that only move data.
#include "engine/graph/geometry_pass.hpp"
#include "engine/ops/variants.hpp"
#include "engine/transformer/call_builder.hpp"

namespace vitro {

void count_moves(const UnitQueues& queues, MoveCounts& counts) {
  constexpr auto kDram = static_cast<std::size_t>(Placement::dram);
  for (const std::vector<WorkItem>& queue : queues) {
    for (const WorkItem& item : queue) {
      for (const KernelCall& call : item.calls) {
        if (!call.is<ops::Move>()) continue;
        const WorkCounts work = count(call);
        ++counts.calls;
        counts.read += work.read[kDram];
        counts.written += work.written[kDram];
      }
    }
  }
}

KernelCall CallBuilder::gather_of_expert(const Operator& from, const KernelCall& product, const Site& site) const {
  const auto rows = static_cast<std::uint32_t>(site.step->rows->size());
  KernelCall gather;
  gather.op = ops::Gather{};
  gather.layer = product.layer;
  gather.expert = product.expert;
  gather.variant = product.variant == variant::kReference ? variant::kReference : variant::kFloat;
  gather.batch = site.step->rows;
  View chosen = buffers_.view("expert_rows", site.expert->first, site.expert->count);
  chosen.shape = {site.expert->count, 0, 0};
  gather.in = {buffers_.view(from.output, 0, rows, 0), std::move(chosen)};
  gather.out = {buffers_.view("expert_x", site.expert->first, site.expert->count, site.unit)};
  return gather;
}

// The Regions are those of the call's heads alone, so that nothing is left to be sliced.
void CallBuilder::make_move(const Operator& op, std::uint32_t rows, KernelCall& call) const {
  const HeadExtents x{rows, op.width / config_.head_dim, config_.head_dim};
  call.regions = std::make_shared<const CopyRegions>(regions_of(op.path, x, in_heads(call.slice, x.heads)));
  call.slice = {};
}

}  // namespace vitro
