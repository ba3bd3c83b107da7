// The pass over the operator graph that makes one operator of attention's parts.
#pragma once
#include "engine/graph/operator.hpp"

namespace vitro {

// Where scores, which nobody else reads, are weighed and weigh values of the same pool and window. The result has the same bits, but where
// queries are float16 and not scaled first. Operators keep their order.
OperatorGraph fuse_attention(const OperatorGraph& graph);

}  // namespace vitro
