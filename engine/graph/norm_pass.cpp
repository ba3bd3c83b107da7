#include "engine/graph/norm_pass.hpp"

#include <algorithm>

#include "engine/graph/graph_copy.hpp"

namespace vitro {
namespace {

constexpr std::uint8_t kRows = 0, kScales = 1;  // operands of scale_rows

bool is_norm(const OperatorGraph& graph, OperatorId id) {
  if (!graph[id].is<ops::ScaleRows>()) return false;
  const std::vector<OperatorId> inputs = inputs_of(graph, id);
  const OperatorId rms = inputs[kScales];
  return graph[rms].is<ops::InverseRms>() && boost::out_degree(rms, graph) == 1 && inputs_of(graph, rms).front() == inputs[kRows];
}

bool is_part(const OperatorGraph& graph, OperatorId id) {
  if (!graph[id].is<ops::InverseRms>()) return false;
  const auto [first, last] = boost::out_edges(id, graph);
  return std::any_of(first, last, [&](const auto& edge) { return is_norm(graph, boost::target(edge, graph)); });
}

}  // namespace

OperatorGraph fuse_norms(const OperatorGraph& graph) {
  GraphCopy copy(graph);
  for (const OperatorId id : execution_order(graph)) {
    if (is_part(graph, id)) continue;
    if (!is_norm(graph, id)) {
      copy.add(id);
      continue;
    }
    const std::vector<OperatorId> inputs = inputs_of(graph, id);
    Operator norm = graph[id];
    norm.op = ops::RmsNorm{std::get<ops::InverseRms>(graph[inputs[kScales]].op).eps};
    copy.replace(id, std::move(norm), {inputs[kRows]});
  }
  return std::move(copy.graph);
}

}  // namespace vitro
