// The operator graph of a model as a run wants it: what look-ups and adapters add, put between the operators of its family.
#pragma once
#include "engine/graph/graph_options.hpp"
#include "engine/graph/operator.hpp"
#include "engine/parts/lora/lora_bank.hpp"
#include "engine/parts/products/products_config.hpp"

namespace vitro {

// `adapters`: null, the base alone. `options`: as build_graph() has them; what is inside a whole FFN is its own matter.
OperatorGraph model_graph(const ModelConfig& config, const WeightStore& weights, const ProductMethods& products, const LoraBank* adapters,
                          GraphOptions options);

}  // namespace vitro
