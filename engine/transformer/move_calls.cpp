// The calls of operators that only move data.
#include "engine/graph/geometry_pass.hpp"
#include "engine/ops/variants.hpp"
#include "engine/transformer/call_builder.hpp"

namespace vitro {

namespace {

// One for each position that a row's query heads see.
void count_scores(const KernelCall& call, MoveCounts& counts) {
  if (!call.is<ops::AttentionScores, ops::AttentionWeights, ops::AttentionValues>()) return;
  const WorkCounts work = count(call);
  if (call.is<ops::AttentionWeights>()) {
    counts.scores_read += work.read[static_cast<std::size_t>(Placement::dram)];
    counts.scores_written += work.written[static_cast<std::size_t>(Placement::dram)];
    return;
  }
  const std::uint64_t scores = work.macs / call.in[1].shape[2];
  if (call.is<ops::AttentionScores>()) counts.scores_written += scores * call.out[0].format.block_bytes();
  if (call.is<ops::AttentionValues>()) counts.scores_read += scores * call.in[0].format.block_bytes();
}

}  // namespace

void count_moves(const UnitQueues& queues, MoveCounts& counts) {
  constexpr auto kDram = static_cast<std::size_t>(Placement::dram);
  for (const std::vector<WorkItem>& queue : queues) {
    for (const WorkItem& item : queue) {
      for (const KernelCall& call : item.calls) {
        count_scores(call, counts);
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

// The Regions are those of the call's heads or columns alone, so that nothing is left to be sliced.
void CallBuilder::make_move(const Operator& op, std::uint32_t rows, KernelCall& call) const {
  const HeadExtents x = extents_of(op, rows, config_);
  const Slice heads = op.split == Split::rows ? call.slice : in_heads(call.slice, x.heads);
  call.regions = std::make_shared<const CopyRegions>(regions_of(op.path, x, heads));
  call.slice = {};
}

}  // namespace vitro
