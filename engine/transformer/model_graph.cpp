#include "engine/transformer/model_graph.hpp"

#include "engine/graph/lora_pass.hpp"
#include "engine/graph/operator_graph.hpp"
#include "engine/graph/precompute_pass.hpp"
#include "engine/transformer/call_builder.hpp"

namespace vitro {
namespace {

// Products by look-up are two operators, the first of which serves all products with one input.
OperatorGraph with_look_ups(OperatorGraph graph, const WeightStore& weights, const ProductMethods& products) {
  if (products.decode != Method::lut && products.prefill != Method::lut) return graph;
  const auto format = [&weights](const Operator& product) { return weights.get(*product.weight, product.layer).format; };
  graph = with_precompute(graph, [&](const Operator& product) {
    return product.rows != RowSet::routed && *product.weight != Role::router && applies(Method::lut, format(product));
  });
  if (!products.share_precompute) return graph;
  return share_precompute(graph, [&](const Operator& a, const Operator& b) { return format(a) == format(b); });
}

}  // namespace

OperatorGraph model_graph(const ModelConfig& config, const WeightStore& weights, const ProductMethods& products, const LoraBank* adapters,
                          GraphOptions options) {
  OperatorGraph graph = with_look_ups(build_graph(config, options), weights, products);
  if (adapters == nullptr) return graph;
  return with_bypasses(graph, adapters->order(), [&](const Operator& product) { return adapters->rank(*product.weight, product.layer); });
}

}  // namespace vitro
