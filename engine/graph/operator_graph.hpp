// The operators of a model and the tensors between them, as a Boost.Graph graph. Families differ only in how it is
// built; schedulers lower it (engine/graph/lowering.hpp), `vitro graph MODEL --dot` draws it.
#pragma once
#include <boost/graph/adjacency_list.hpp>
#include <iosfwd>
#include <vector>

#include "engine/graph/graph_options.hpp"
#include "engine/graph/operator.hpp"
#include "engine/model/model_config.hpp"

namespace vitro {

struct OperatorGraph : boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Operator, Operand> {
  using adjacency_list::adjacency_list;
};
static_assert(std::is_same_v<OperatorId, OperatorGraph::vertex_descriptor>);

// Built unfused, then through the passes that `options` wants.
OperatorGraph build_graph(const ModelConfig& config, GraphOptions options = {});

// Producers before consumers, and the order of construction otherwise. Throws RunError on a cycle.
std::vector<OperatorId> execution_order(const OperatorGraph& graph);
// Producers of an operator's inputs, by operand index.
std::vector<OperatorId> inputs_of(const OperatorGraph& graph, OperatorId id);

void write_dot(std::ostream& out, const OperatorGraph& graph);

}  // namespace vitro
