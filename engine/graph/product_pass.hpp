// The pass over the operator graph that takes slices of a product's result out (MNN-LLM 5.4 has them as Regions).
#pragma once
#include "engine/graph/operator.hpp"

namespace vitro {

// A product that slices of its columns alone read, each of whole tiles of kTileRows, becomes a product for each of them, with those rows of
// the weight (Operator::part): a row's product has the same bits, and nothing is copied. The weight stays one tensor. Slices that are
// parts of a longer Move stay. Operators keep their order.
OperatorGraph split_products(const OperatorGraph& graph);

}  // namespace vitro
