#include "engine/graph/precompute_pass.hpp"

#include <optional>

#include "engine/base/check.hpp"
#include "engine/graph/graph_copy.hpp"

namespace vitro {
namespace {

constexpr std::uint8_t kTables = 1;  // operand of a product; 0 is its activations

}  // namespace

OperatorGraph with_precompute(const OperatorGraph& graph, const std::function<bool(const Operator&)>& looks_up) {
  GraphCopy copy(graph);
  for (const OperatorId id : execution_order(graph)) {
    const Operator& product = graph[id];
    if (!product.is<ops::Matmul>() || !looks_up(product)) {
      copy.add(id);
      continue;
    }
    VITRO_CHECK(boost::in_degree(id, graph) == 1, "a product of a dense model reads its activations and nothing else");
    Operator tables = product;
    tables.op = ops::Precompute{};
    tables.name = product.name + ".tables";
    tables.split = Split::replicated;  // in the memory of the unit that looks up
    tables.output = "tables";
    tables.width = 0;
    tables.bias = {};
    const OperatorId made = boost::add_vertex(std::move(tables), copy.graph);
    boost::add_edge(copy.at(inputs_of(graph, id).front()), made, Operand{0}, copy.graph);
    boost::add_edge(made, copy.add(id), Operand{kTables}, copy.graph);
  }
  return std::move(copy.graph);
}

OperatorGraph share_precompute(const OperatorGraph& graph, const std::function<bool(const Operator&, const Operator&)>& same) {
  GraphCopy copy(graph);
  std::optional<OperatorId> kept;  // whose tables a unit holds
  for (const OperatorId id : execution_order(graph)) {
    if (!graph[id].is<ops::Precompute>()) {
      copy.add(id);
      continue;
    }
    const OperatorId input = inputs_of(graph, id).front();
    if (kept && inputs_of(graph, *kept).front() == input && same(graph[*kept], graph[id])) {
      copy.reads_of(id, copy.at(*kept));
    } else {
      copy.add(id);
      kept = id;
    }
  }
  return std::move(copy.graph);
}

}  // namespace vitro
