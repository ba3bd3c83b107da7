#include "engine/transformer/part_times.hpp"

#include "engine/graph/operator_graph.hpp"

namespace vitro {

Part part_of(const Phase& phase, const OperatorGraph& graph) {
  if (phase.block == BlockKind::attention) return Part::attention;
  if (phase.block == BlockKind::head) return Part::head;
  if (phase.block != BlockKind::ffn) return Part::other;
  if (phase.routed) return Part::experts;
  Part part = Part::ffn;
  for (const OperatorGroup& group : phase.groups) {
    for (const OperatorId id : group.operators) {
      if (graph[id].is<ops::Route>()) return Part::router;
      if (graph[id].is<ops::ExpertSum>()) part = Part::combine;
    }
  }
  return part;
}

}  // namespace vitro
