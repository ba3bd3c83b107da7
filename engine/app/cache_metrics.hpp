// Metrics of what is cached and read ahead: keys and values in flash, whole experts, neurons of experts (docs/reference/results.md).
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/parts/weights/residency.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {

nlohmann::ordered_json kv_flash_metrics(const KvFlashStats& stats);
// Metrics of decoding are of what came after `before`.
nlohmann::ordered_json expert_cache_metrics(const ExpertCacheStats& stats, const ExpertCacheStats& prefill, const ExpertCacheStats& before);
nlohmann::ordered_json neurons_ahead_metrics(const NeuronsAheadStats& stats);

}  // namespace vitro
