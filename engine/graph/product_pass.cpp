#include "engine/graph/product_pass.hpp"

#include <algorithm>

#include "engine/graph/graph_copy.hpp"

namespace vitro {
namespace {

bool is_slice(const Operator& op) {
  // Of whole strips, the largest group of rows that a layout has: how weights lie is known later than the graph.
  return op.is<ops::Move>() && op.path.size() == 1 && op.path.front().is_slice() && op.path.front().first % kStripRows == 0 &&
         op.width % kStripRows == 0;
}

bool is_sliced(const OperatorGraph& graph, OperatorId id) {
  const auto [first, last] = boost::out_edges(id, graph);
  return graph[id].is<ops::Matmul>() && first != last &&
         std::all_of(first, last, [&](const auto& edge) { return is_slice(graph[boost::target(edge, graph)]); });
}

}  // namespace

OperatorGraph split_products(const OperatorGraph& graph) {
  GraphCopy copy(graph);
  for (const OperatorId id : execution_order(graph)) {
    if (is_sliced(graph, id)) continue;
    const Operator& op = graph[id];
    const OperatorId source = is_slice(op) ? inputs_of(graph, id).front() : id;
    if (source == id || !is_sliced(graph, source)) {
      copy.add(id);
      continue;
    }
    Operator product = graph[source];
    product.name = op.name;
    product.output = op.output;
    product.width = op.width;
    product.part = {op.path.front().first, op.width};
    copy.replace(id, std::move(product), {inputs_of(graph, source).front()});
  }
  return std::move(copy.graph);
}

}  // namespace vitro
