// Parts from outside the tree: a shared object that adds to the registries before a run.
//
//   #include "engine/parts/plugin.hpp"
//   VITRO_PARTS(parts) { parts.evictions.add({"mine", "what it does", make_mine}); }
//
// It is compiled with this engine's headers and named by `engine.plugins` in an experiment.
#pragma once
#include <string>

#include "engine/parts/register_parts.hpp"

namespace vitro {

struct PartRegistries {
  Registry<WeightsKind>& weights;
  Registry<FfnKind>& ffns;
  Registry<PlacementKind>& placements;
  Registry<EvictionRule>& evictions;
  Registry<KvKeepRule>& kv_keeps;
  Registry<DriftRule>& drifts;
  Registry<LookAheadKind>& look_aheads;
  Registry<PlaceRule>& expert_places;
};

// Changes with the interfaces of parts: a plug-in that was compiled for another one is refused.
inline constexpr int kPartsAbi = 6;

// Loads the object once per process and lets it register its parts. `where`: of the key that names it, for messages. Throws ConfigError.
void load_parts(const std::string& path, const std::string& where);

}  // namespace vitro

#define VITRO_PARTS(parts)                                                                          \
  extern "C" __attribute__((visibility("default"))) const int vitro_parts_abi = ::vitro::kPartsAbi; \
  extern "C" __attribute__((visibility("default"))) void vitro_register_parts(::vitro::PartRegistries& parts)
