// How a transformer's KV cache is laid out, and what of it stays in DRAM.
#pragma once
#include "engine/transformer/transformer.hpp"

namespace vitro {

KvShape kv_shape(const ModelConfig& config, const TransformerOptions& options);  // in whole pages
// Whether some sequence may get longer than what stays: each layer then has a block table of its own.
bool may_spill(const ModelConfig& config, const TransformerOptions& options);
// A rule that follows the budget gets what is free by now, so all else has its memory already.
KvPlacement kv_placement(const Memory& memory, const ModelConfig& config, const TransformerOptions& options);

}  // namespace vitro
