#include "engine/graph/attention_pass.hpp"

#include <optional>
#include <set>

#include "engine/graph/graph_copy.hpp"

namespace vitro {
namespace {

constexpr std::uint8_t kNumbers = 0, kPool = 1;  // operands of scores (the queries) and of values (their weights)

struct Parts {
  OperatorId scores, weights;
};

// Of the operator that weighs values.
std::optional<Parts> parts_of(const OperatorGraph& graph, OperatorId id) {
  if (!graph[id].is<ops::AttentionValues>()) return {};
  const std::vector<OperatorId> inputs = inputs_of(graph, id);
  const OperatorId weights = inputs[kNumbers];
  if (!graph[weights].is<ops::AttentionWeights>() || boost::out_degree(weights, graph) != 1) return {};
  const OperatorId scores = inputs_of(graph, weights).front();
  if (!graph[scores].is<ops::AttentionScores>() || boost::out_degree(scores, graph) != 1) return {};
  const auto& dots = std::get<ops::AttentionScores>(graph[scores].op);
  const auto& values = std::get<ops::AttentionValues>(graph[id].op);
  const bool alike = dots.window == values.window && dots.pool_layers == values.pool_layers &&
                     dots.window == std::get<ops::AttentionWeights>(graph[weights].op).window;
  if (!alike || inputs_of(graph, scores)[kPool] != inputs[kPool]) return {};
  return Parts{scores, weights};
}

}  // namespace

OperatorGraph fuse_attention(const OperatorGraph& graph) {
  GraphCopy copy(graph);
  std::set<OperatorId> joined;
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (const std::optional<Parts> parts = parts_of(graph, id)) joined.insert({parts->scores, parts->weights});
  }
  for (const OperatorId id : execution_order(graph)) {
    if (joined.contains(id)) continue;
    const std::optional<Parts> parts = parts_of(graph, id);
    if (!parts) {
      copy.add(id);
      continue;
    }
    const auto& dots = std::get<ops::AttentionScores>(graph[parts->scores].op);
    const std::vector<OperatorId> inputs = inputs_of(graph, parts->scores);
    Operator attention = graph[id];
    attention.op = ops::Attention{dots.scale, dots.window, dots.pool_layers, dots.scales_query};
    copy.replace(id, std::move(attention), {inputs[kNumbers], inputs[kPool]});
  }
  return std::move(copy.graph);
}

}  // namespace vitro
