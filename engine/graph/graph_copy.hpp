// What passes over the operator graph have in common: they copy it operator by operator and put others between.
#pragma once
#include <boost/range/iterator_range.hpp>
#include <vector>

#include "engine/graph/operator_graph.hpp"

namespace vitro {

// Producers stay before consumers. Requires: a pass goes through execution_order(from).
class GraphCopy {
 public:
  explicit GraphCopy(const OperatorGraph& from) : from_(from), at_(boost::num_vertices(from)) {}

  OperatorId add(OperatorId id) {
    at_[id] = boost::add_vertex(from_[id], graph);
    for (const auto& edge : boost::make_iterator_range(boost::in_edges(id, from_))) {
      boost::add_edge(at_[boost::source(edge, from_)], at_[id], from_[edge], graph);
    }
    return at_[id];
  }
  // In place of `id`, with edges from what it reads.
  OperatorId replace(OperatorId id, Operator by, std::initializer_list<OperatorId> inputs) {
    at_[id] = boost::add_vertex(std::move(by), graph);
    std::uint8_t index = 0;
    for (const OperatorId input : inputs) boost::add_edge(at_[input], at_[id], Operand{index++}, graph);
    return at_[id];
  }
  // Consumers of `id` that are added from here on read the operator `made` of the copy.
  void reads_of(OperatorId id, OperatorId made) { at_[id] = made; }
  OperatorId at(OperatorId id) const { return at_[id]; }

  OperatorGraph graph;

 private:
  const OperatorGraph& from_;
  std::vector<OperatorId> at_;
};

}  // namespace vitro
