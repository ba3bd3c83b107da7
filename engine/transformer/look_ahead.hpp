// Asks the router of a layer before its layer is there: on the input of the FFN before it, with its own norm (Eliseev and Mazur 2023,
// arXiv 2312.17238, speculative loading).
#pragma once
#include <optional>
#include <vector>

#include "engine/graph/operator.hpp"
#include "engine/parts/placement/graph_cache.hpp"
#include "engine/parts/weights/residency.hpp"
#include "engine/transformer/buffers.hpp"

namespace vitro {

class LookAhead {
 public:
  // rows: of the largest step that asks. Throws ConfigError when the budget has no room for one norm and the logits of so many rows.
  LookAhead(Machine& machine, const OperatorGraph& graph, const WeightStore& weights, const Residency& residency, GraphCache& graphs,
            const Buffers& buffers, VariantId variant, std::uint32_t rows);

  // Whether the layer's router has a norm of its own before it, and there is an FFN before that whose input is known.
  bool can_ask(std::int16_t layer) const;
  // What the router of `layer` says of the rows at hand in the layer before; first_row: of a prompt that goes layer by layer.
  // Requires: can_ask(layer); the attention of the layer before is through. Throws RunError when the unit fails.
  Task<std::vector<ExpertChoice>> ask(ComputeUnit* unit, std::int16_t layer, Batch rows, std::uint32_t first_row);

 private:
  struct Router {
    OperatorId norm = 0, product = 0, route = 0;
  };
  View rows_of(const Lease& memory, OperatorId like, std::uint32_t rows) const;
  void add_weights(const Operator& op, KernelCall& call) const;

  Machine& machine_;
  const OperatorGraph& graph_;
  const WeightStore& weights_;
  const Residency& residency_;
  GraphCache& graphs_;
  const Buffers& buffers_;
  VariantId variant_;
  std::vector<std::optional<Router>> routers_;  // by layer
  Lease normed_, logits_;
};

}  // namespace vitro
