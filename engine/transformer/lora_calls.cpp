// The calls of a bypass: for each run of rows with one adapter, its own two products.
#include "engine/graph/operator_graph.hpp"
#include "engine/transformer/call_builder.hpp"

namespace vitro {

// No phase but a bypass accumulates: FFNs by neuron are no phases of calls.
void count_bypasses(const UnitQueues& queues, BypassCounts& counts) {
  for (const std::vector<WorkItem>& queue : queues) {
    for (const WorkItem& item : queue) {
      for (const KernelCall& call : item.calls) {
        if (!call.is<ops::AddProduct, ops::Accumulate>()) continue;
        const WorkCounts work = count(call);
        counts.macs += work.macs;
        counts.accesses += 2 * work.macs + work.written[static_cast<std::size_t>(Placement::dram)] / call.out[0].format.block_bytes();
      }
    }
  }
}

void CallBuilder::append_bypass(OperatorId id, const Site& site, const KernelCall& call, WorkItem& item) const {
  const Operator& op = graph_[id];
  const LoraBank& bank = *options_.adapters;
  const std::vector<OperatorId> inputs = inputs_of(graph_, id);
  const bool narrow = inputs.size() == 1;  // A x, for a bypass that follows
  const View met = input(id, inputs[kBypassInput], site), out = tensor(op, site, narrow ? site.unit : 0);
  for (const AdapterRun& run : op.rows == RowSet::sampled ? site.step->sampled_adapters : site.step->adapters) {
    const LoraBank::Pair* pair = bank.find(run.adapter, *op.adapts, op.layer);
    if (pair == nullptr) continue;
    const std::uint32_t rank = pair->a.shape[0];
    KernelCall part = call;
    part.out = {rows_of_run(out, run, narrow ? rank : 0)};
    if (narrow) {
      part.in = {pair->a, rows_of_run(met, run)};
      item.calls.push_back(std::move(part));
      continue;
    }
    part.op = ops::AddProduct{pair->scale};
    if (bank.order() == LoraOrder::a_bx) {
      part.in = {rows_of_part(pair->b, op.part), rows_of_run(met, run, rank)};
    } else {
      // Rows of B, as many as the slice has, weigh the rows of A.
      const View product = rows_of_part(bank.product(*op.adapts, op.layer), op.part);
      KernelCall sum = part;
      sum.op = ops::Accumulate{};
      sum.slice = {};
      View b = rows_of_part(pair->b, op.part), into = product;
      b.offset += Bytes{4} * call.slice.first * b.shape[1];
      into.offset += Bytes{4} * call.slice.first * into.shape[1];
      b.shape[0] = into.shape[0] = call.slice.count;
      sum.in = {pair->a, std::move(b)};
      sum.out = {std::move(into)};
      item.calls.push_back(std::move(sum));
      part.in = {product, rows_of_run(met, run)};
    }
    item.calls.push_back(std::move(part));
  }
}

}  // namespace vitro
