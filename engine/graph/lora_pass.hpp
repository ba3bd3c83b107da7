// The pass over the operator graph that gives matrices with adapters a bypass (MNN-LLM 5.5): W x becomes W x + scale B (A x).
#pragma once
#include <functional>
#include <string_view>

#include "engine/graph/operator.hpp"

namespace vitro {

// How a bypass is multiplied (MNN-LLM Table 3).
enum class LoraOrder : std::uint8_t {
  a_bx,  // B (A x): two products with a dimension of the rank
  ab_x,  // (B A) x: the product of the two matrices, as large as W, then one with it
};
std::string_view to_string(LoraOrder order);

// Operands of the operator that adds: what the product of its matrix meets, and the product that it adds to, in place. Units that cut
// the product cut it alike.
inline constexpr std::uint8_t kBypassInput = 0, kAdaptedProduct = 1;

// In the order a_bx, A x is an operator of its own in front of the product, or of the first of the products that are parts of one matrix.
// Every unit computes all of it: its few rows are less than a barrier. In the order ab_x the one operator stands for both products.
// `rank`: of the largest adapter of a product's matrix; 0: none adapts it. Operators keep their order.
OperatorGraph with_bypasses(const OperatorGraph& graph, LoraOrder order, const std::function<std::uint32_t(const Operator&)>& rank);

}  // namespace vitro
