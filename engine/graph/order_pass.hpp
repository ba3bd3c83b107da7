// Products whose columns stand in an order of their own (engine/model/input_order.hpp) read their inputs in that order.
#pragma once
#include "engine/graph/operator.hpp"

namespace vitro {

// Puts a gather of columns before each such product. Products with one input and one order share it. Every unit makes its own copy, as
// of a norm's result: that costs less than a barrier.
OperatorGraph with_input_orders(const OperatorGraph& graph, const std::vector<InputOrder>& orders);

// What a product's gather reads, for whoever needs the inputs as they were: the input itself where it is no such gather.
OperatorId unordered(const OperatorGraph& graph, OperatorId input);

}  // namespace vitro
