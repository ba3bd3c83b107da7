#include "engine/transformer/look_ahead.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/graph/operator_graph.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/placement/charge_dispatch.hpp"

namespace vitro {

LookAhead::LookAhead(Machine& machine, const OperatorGraph& graph, const WeightStore& weights, const Residency& residency,
                     GraphCache& graphs, const Buffers& buffers, VariantId variant, std::uint32_t rows)
    : machine_(machine),
      graph_(graph),
      weights_(weights),
      residency_(residency),
      graphs_(graphs),
      buffers_(buffers),
      variant_(variant == variant::kReference ? variant : variant::kFloat) {
  const Router* any = nullptr;
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (!graph[id].is<ops::Route>()) continue;
    const OperatorId product = inputs_of(graph, id).front(), norm = inputs_of(graph, product).front();
    if (!graph[norm].is<ops::RmsNorm, ops::LayerNorm>()) continue;
    routers_.resize(std::max(routers_.size(), static_cast<std::size_t>(graph[id].layer) + 1));
    any = &routers_[static_cast<std::size_t>(graph[id].layer)].emplace(Router{norm, product, id});
  }
  if (any == nullptr) return;
  const auto lease = [&](OperatorId like) {
    const View one = buffers.view(graph[like].output, 0, 1);
    Result<Lease> memory = machine.memory.lease(Bytes{rows} * one.shape[1] * one.format.block_bytes(), Placement::dram, Region::activation);
    if (!memory.ok()) throw ConfigError("memory.budget: no room for looking ahead: " + memory.status().message);
    return std::move(memory).value();
  };
  normed_ = lease(any->norm);
  logits_ = lease(any->product);
}

bool LookAhead::can_ask(std::int16_t layer) const {
  const auto has_router = [&](int l) { return l >= 0 && l < static_cast<int>(routers_.size()) && routers_[static_cast<std::size_t>(l)]; };
  return has_router(layer) && has_router(layer - 1);
}

View LookAhead::rows_of(const Lease& memory, OperatorId like, std::uint32_t rows) const {
  View view = buffers_.view(graph_[like].output, 0, 1);
  view.memory = memory;
  view.offset = 0;
  view.shape[0] = rows;
  return view;
}

void LookAhead::add_weights(const Operator& op, KernelCall& call) const {
  for (const std::optional<Role>& role : {op.weight, op.bias}) {
    if (!role) continue;
    const Weight& weight = weights_.get(*role, op.layer);
    View view = residency_.view(weight);
    if (weight.rows == 1) view.shape = {weight.columns, 0, 0};
    call.in.push_back(std::move(view));
  }
}

Task<std::vector<ExpertChoice>> LookAhead::ask(ComputeUnit* unit, std::int16_t layer, Batch rows, std::uint32_t first_row) {
  const Router router = *routers_[static_cast<std::size_t>(layer)];
  const OperatorId known = routers_[static_cast<std::size_t>(layer - 1)]->norm;
  const std::string& hidden = graph_[inputs_of(graph_, known).front()].output;
  const auto count = static_cast<std::uint32_t>(rows->size());
  const View x = buffers_.view(hidden, buffers_.crosses_layers(hidden) ? first_row : 0, count);
  const View normed = rows_of(normed_, router.norm, count), logits = rows_of(logits_, router.product, count);
  Chain chain(3);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Operator& op = graph_[i == 0 ? router.norm : i == 1 ? router.product : router.route];
    KernelCall& call = chain[i];
    call.op = op.op;
    call.variant = variant_;
    call.layer = layer;
    call.expert = kForeseen;
    call.batch = rows;
  }
  chain[0].in = {x};
  add_weights(graph_[router.norm], chain[0]);
  chain[0].out = {normed};
  const Operator& product = graph_[router.product];
  chain[1].in = {residency_.view(weights_.get(*product.weight, layer)), normed};
  if (product.bias) {
    View bias = residency_.view(weights_.get(*product.bias, layer));
    bias.shape = {bias.shape[1], 0, 0};
    chain[1].in.push_back(std::move(bias));
  }
  chain[1].out = {logits};
  chain[2].in = {logits};
  charge_dispatch(machine_.clock, chain);
  RunResult result = co_await graphs_.run(unit, std::move(chain));
  result.status.or_throw();
  for (Outcome& outcome : result.outcomes) {
    if (auto* choices = std::get_if<std::vector<ExpertChoice>>(&outcome)) co_return std::move(*choices);
  }
  co_return std::vector<ExpertChoice>{};
}

}  // namespace vitro
