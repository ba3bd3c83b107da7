// Passes over the operator graph for products by table look-up. A look-up kernel is two operators: Precompute makes tables of the
// activations, and the product finds its sums in them. Products with the same input need the tables once (T-MAN 5, Fig. 11).
#pragma once
#include <functional>

#include "engine/graph/operator.hpp"

namespace vitro {

// The graph with a Precompute in front of each product for which `looks_up` holds, on an edge beside that of its activations.
// Operators keep their order.
OperatorGraph with_precompute(const OperatorGraph& graph, const std::function<bool(const Operator&)>& looks_up);

// The graph in which products that look up in tables of the same tensor have one Precompute, in front of the first of them. A unit holds
// one set of tables: where another Precompute lies between, they are made again. Tables of different weight formats stay apart where `same`
// says so: it is asked about the products' roles and layers.
OperatorGraph share_precompute(const OperatorGraph& graph, const std::function<bool(const Operator&, const Operator&)>& same);

}  // namespace vitro
