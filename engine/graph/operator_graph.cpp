#include "engine/graph/operator_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/topological_sort.hpp>
#include <ostream>

#include "engine/base/check.hpp"

namespace vitro {

std::vector<OperatorId> execution_order(const OperatorGraph& graph) {
  std::vector<OperatorId> order;
  try {
    boost::topological_sort(graph, std::back_inserter(order));
  } catch (const boost::not_a_dag&) {
    throw RunError("the operator graph has a cycle");
  }
  std::reverse(order.begin(), order.end());
  // Depth-first order depends on edge order; the order of construction is also topological and easier to follow. Use
  // it unless a pass has appended operators in the middle.
  std::vector<OperatorId> built(boost::num_vertices(graph));
  for (OperatorId id = 0; id < built.size(); ++id) built[id] = id;
  const auto [first, last] = boost::edges(graph);
  const bool forward = std::all_of(first, last, [&](const auto& edge) { return boost::source(edge, graph) < boost::target(edge, graph); });
  return forward ? built : order;
}

std::vector<OperatorId> inputs_of(const OperatorGraph& graph, OperatorId id) {
  std::vector<OperatorId> inputs(boost::in_degree(id, graph));
  const auto [first, last] = boost::in_edges(id, graph);
  for (auto edge = first; edge != last; ++edge) inputs.at(graph[*edge].index) = boost::source(*edge, graph);
  return inputs;
}

void write_dot(std::ostream& out, const OperatorGraph& graph) {
  constexpr std::string_view kColours[] = {"#fde0c5", "#cfe3f5", "#d5ecd4", "#e8d9f1"};
  out << "digraph G {\nnode [fontname=\"Helvetica\"];\nedge [fontname=\"Helvetica\", fontsize=9];\n";
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    const Operator& op = graph[id];
    out << fmt::format("{}[label=\"{}\\n{}\", shape=box, style=\"rounded,filled\", fillcolor=\"{}\"];\n", id, op.name, to_string(op.op),
                       kColours[static_cast<std::size_t>(op.block)]);
  }
  const auto [first, last] = boost::edges(graph);
  for (auto edge = first; edge != last; ++edge) {
    const OperatorId source = boost::source(*edge, graph);
    const Operator& from = graph[source];
    const std::string width = from.width > 0 ? fmt::format(" [{}]", from.width) : "";
    out << fmt::format("{}->{} [label=\"{}{}\"];\n", source, boost::target(*edge, graph), from.output, width);
  }
  out << "}\n";
}

}  // namespace vitro
