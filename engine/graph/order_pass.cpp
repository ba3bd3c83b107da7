#include "engine/graph/order_pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/graph/graph_copy.hpp"

namespace vitro {
namespace {

bool orders_columns(const Operator& op) { return op.is<ops::Gather>() && std::get<ops::Gather>(op.op).columns; }

Operator gather_for(const Operator& product, const Operator& input, Role same_as, std::size_t before) {
  Operator gather = product;
  gather.op = ops::Gather{.columns = true};
  gather.name += ".order";
  gather.split = Split::replicated;
  // A buffer of this width. Those of one input live at the same time; before another is gathered, all that read this one are through.
  gather.output = fmt::format("ordered_{}_{}", input.width, before);
  gather.width = input.width;
  gather.weight = order_of(same_as);
  gather.bias = {};
  return gather;
}

}  // namespace

OperatorGraph with_input_orders(const OperatorGraph& graph, const std::vector<InputOrder>& orders) {
  GraphCopy copy(graph);
  std::map<std::tuple<OperatorId, Role>, OperatorId> made;  // by the input and whose order it is
  std::map<OperatorId, std::size_t> of_input;
  for (const OperatorId id : execution_order(graph)) {
    const Operator& op = graph[id];
    const auto order = std::ranges::find_if(orders, [&](const InputOrder& o) {
      return op.is<ops::Matmul>() && op.layer == o.layer && op.weight == o.product;
    });
    if (order == orders.end()) {
      copy.add(id);
      continue;
    }
    const OperatorId x = inputs_of(graph, id).front();
    auto gather = made.find({x, order->same_as});
    if (gather == made.end()) {
      const OperatorId added = boost::add_vertex(gather_for(op, graph[x], order->same_as, of_input[x]++), copy.graph);
      boost::add_edge(copy.at(x), added, Operand{0}, copy.graph);
      gather = made.emplace(std::tuple(x, order->same_as), added).first;
    }
    const OperatorId whole = copy.at(x);
    copy.reads_of(x, gather->second);
    copy.add(id);
    copy.reads_of(x, whole);
  }
  return std::move(copy.graph);
}

OperatorId unordered(const OperatorGraph& graph, OperatorId input) {
  return orders_columns(graph[input]) ? inputs_of(graph, input).front() : input;
}

}  // namespace vitro
