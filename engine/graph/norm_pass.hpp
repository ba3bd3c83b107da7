// The pass over the operator graph that makes one operator of an RMSNorm's parts.
#pragma once
#include "engine/graph/operator.hpp"

namespace vitro {

// Where rows are scaled by their own inverse_rms, which nobody else reads. The result has the same bits. Operators keep their order.
OperatorGraph fuse_norms(const OperatorGraph& graph);

}  // namespace vitro
