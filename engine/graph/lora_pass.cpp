#include "engine/graph/lora_pass.hpp"

#include <map>

#include "engine/graph/graph_copy.hpp"
#include "engine/graph/order_pass.hpp"

namespace vitro {

std::string_view to_string(LoraOrder order) { return order == LoraOrder::a_bx ? "a_bx" : "ab_x"; }

OperatorGraph with_bypasses(const OperatorGraph& graph, LoraOrder order, const std::function<std::uint32_t(const Operator&)>& rank) {
  GraphCopy copy(graph);
  std::map<std::pair<Role, OperatorId>, OperatorId> narrowed;  // A x, by the matrix and x: products of parts of a matrix share it
  for (const OperatorId id : execution_order(graph)) {
    const std::uint32_t most = graph[id].is<ops::Matmul>() ? rank(graph[id]) : 0;
    if (most == 0) {
      copy.add(id);
      continue;
    }
    const OperatorId x = copy.at(unordered(graph, inputs_of(graph, id).front()));  // adapters are those of the matrix as it was
    Operator bypass = graph[id];
    bypass.op = ops::AddProduct{};
    bypass.adapts = bypass.weight;
    bypass.weight = bypass.bias = {};
    OperatorId met = x;
    const auto there = narrowed.find({*bypass.adapts, x});
    if (there != narrowed.end()) {
      met = there->second;
    } else if (order == LoraOrder::a_bx) {
      Operator narrow = bypass;
      narrow.op = ops::AddProduct{1, false};
      narrow.name += ".lora_a";
      narrow.split = Split::replicated;
      narrow.output += ".lora";  // of this product alone: those of others may be computed before it is read
      narrow.width = most;
      narrow.part = {};
      met = boost::add_vertex(std::move(narrow), copy.graph);
      boost::add_edge(x, met, Operand{kBypassInput}, copy.graph);
      narrowed[{*bypass.adapts, x}] = met;
    }
    bypass.name += ".lora_b";
    const OperatorId product = copy.add(id), adds = boost::add_vertex(std::move(bypass), copy.graph);
    boost::add_edge(met, adds, Operand{kBypassInput}, copy.graph);
    boost::add_edge(product, adds, Operand{kAdaptedProduct}, copy.graph);
    copy.reads_of(id, adds);
  }
  return std::move(copy.graph);
}

}  // namespace vitro
