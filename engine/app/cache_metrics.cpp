#include "engine/app/cache_metrics.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/parts/ffn/moe_stats.hpp"

namespace vitro {

using Json = nlohmann::ordered_json;

namespace {

Json share_of(std::uint64_t part, std::uint64_t whole) {
  const std::optional<double> share = MoeStats::share(part, whole);
  return share ? Json(*share) : Json(nullptr);
}

}  // namespace

Json kv_flash_metrics(const KvFlashStats& stats) {
  const double reading = to_seconds(stats.reading), stalled = std::min(to_seconds(stats.stalled), reading);
  return {{"bytes_written", stats.written},
          {"bytes_read", stats.read},
          {"bytes_verified", stats.verified},
          {"reads_again", stats.read_again},
          {"writes", stats.writes},
          {"reads", stats.reads},
          {"read_ms", reading * 1e3},
          {"stall_ms", stalled * 1e3},
          {"hidden_share", reading > 0 ? Json(1 - stalled / reading) : Json(nullptr)},
          {"write_ms", to_seconds(stats.writing) * 1e3},
          {"held_up_ms", to_seconds(stats.held_up) * 1e3}};
}

Json expert_cache_metrics(const ExpertCacheStats& stats, const ExpertCacheStats& prefill, const ExpertCacheStats& before) {
  const double reading = to_seconds(stats.reading - before.reading), stalled = to_seconds(stats.stalled - before.stalled);
  return {{"slots", stats.slots},
          {"matrices", stats.blocks},
          {"kept", stats.kept},
          {"expert_bytes", stats.expert_bytes},
          {"loads", stats.loads},
          {"read_ahead", stats.foreseen},
          {"read_ahead_used", share_of(stats.foreseen_used, stats.foreseen)},
          {"look_ahead_recall", share_of(stats.named_right, stats.wanted)},
          {"bytes_read", stats.bytes},
          {"prefill_read_ms", to_seconds(prefill.reading) * 1e3},
          {"prefill_stall_ms", to_seconds(prefill.stalled) * 1e3},
          {"decode_read_ms", reading * 1e3},
          {"decode_stall_ms", stalled * 1e3},
          {"decode_hidden_share", reading > 0 ? Json(1 - std::min(stalled, reading) / reading) : Json(nullptr)}};
}

Json neurons_ahead_metrics(const NeuronsAheadStats& stats) {
  return {{"look_ahead_recall", share_of(stats.named_right, stats.wanted)},
          {"blocks", stats.blocks},
          {"used", share_of(stats.used, stats.blocks)},
          {"bytes_read", stats.bytes},
          {"bytes_in_vain", stats.bytes - std::min(stats.bytes, stats.used_bytes)}};
}

}  // namespace vitro
