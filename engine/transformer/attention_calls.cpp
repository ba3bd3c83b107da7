// The calls of operators that keep keys and values or meet them.
#include <algorithm>

#include "engine/graph/operator_graph.hpp"
#include "engine/ops/variants.hpp"
#include "engine/transformer/call_builder.hpp"

namespace vitro {
namespace {

// Columns of each row, head by head.
View by_head(View view, std::uint32_t heads) { return reshaped(view, view.shape[0], heads, view.shape[1] / heads); }

}  // namespace

bool keeps_or_reads_kv(const KernelCall& call) {
  return call.is<ops::KvAppend, ops::KvStage, ops::Attention, ops::AttentionScores, ops::AttentionWeights, ops::AttentionValues>();
}

// Requires: the call's slice is a share of the KV heads.
void CallBuilder::make_attention(OperatorId id, const Site& site, KernelCall& call) const {
  const Operator& op = graph_[id];
  const StepContext& step = *site.step;
  const std::vector<OperatorId> inputs = inputs_of(graph_, id);
  const auto rows = static_cast<std::uint32_t>(step.rows->size());
  const auto in = [&](std::size_t i) { return input(id, inputs[i], site); };
  const auto heads_of = [&](View view, std::uint32_t heads) { return reshaped(std::move(view), rows, heads, config_.head_dim); };
  const std::size_t table_of = kv_.tables() > 1 ? static_cast<std::size_t>(std::max<int>(op.layer, 0)) : 0;
  const View table = reshaped(buffers_.view("block_table", 0, 1, table_of), rows, step.table_width);
  const Slice share = call.slice;
  call.slice = in_heads(share, kv_.shape().heads);
  std::visit(Overloaded{
                 [&](ops::KvAppend& append) {
                   append.pool_layers = kv_.pool_layers();
                   call.in = {heads_of(in(0), config_.kv_heads), heads_of(in(1), config_.kv_heads), table};
                   call.out = {kv_.pool()};
                 },
                 [&](ops::KvStage& stage) {
                   stage.pool_layers = kv_.pool_layers();
                   call.batch = options_.staged.staging->places();
                   const auto blocks = static_cast<std::uint32_t>(call.batch->size());
                   call.in = {kv_.pool(), reshaped(buffers_.view("staged_sources", 0, blocks, table_of), blocks, 1)};
                   call.out = {options_.staged.staging->pool()};
                 },
                 [&](ops::Attention& attention) {
                   if (options_.attention != VariantId::none) call.variant = options_.attention;
                   const KvStaging* const own = site.unit == options_.staged.unit ? options_.staged.staging : nullptr;
                   attention.scales_query = options_.scales_query && !variant::attends_in_fp16(call.variant);
                   attention.pool_layers = own != nullptr ? 1 : kv_.pool_layers();
                   call.in = {heads_of(in(0), config_.heads), own != nullptr ? own->pool() : kv_.pool(),
                              own != nullptr ? reshaped(buffers_.view("staged_table", 0, 1), rows, step.table_width) : table};
                   call.out = {heads_of(tensor(op, site, 0), config_.heads)};
                 },
                 [&](ops::AttentionScores& scores) {
                   scores.scales_query = options_.scales_query;
                   scores.pool_layers = kv_.pool_layers();
                   call.in = {heads_of(in(0), config_.heads), kv_.pool(), table};
                   call.out = {by_head(tensor(op, site, 0), config_.heads)};
                 },
                 [&](const ops::AttentionWeights&) {
                   call.slice = in_heads(share, config_.heads);
                   call.in = {by_head(in(0), config_.heads)};
                   call.out = {by_head(tensor(op, site, 0), config_.heads)};
                 },
                 [&](ops::AttentionValues& values) {
                   values.pool_layers = kv_.pool_layers();
                   call.in = {by_head(in(0), config_.heads), kv_.pool(), table};
                   call.out = {heads_of(tensor(op, site, 0), config_.heads)};
                 },
                 [](const auto&) {},
             },
             call.op);
}

}  // namespace vitro
