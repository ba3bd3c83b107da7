// What the bookkeeping of the neuron cache costs this machine: the same class that the policy uses, without weights, units or storage.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/machine/clock.hpp"

namespace vitro {

struct CacheProbe {
  std::string_view eviction = "step_lru";
  std::uint32_t blocks = 1;  // of one layer
  std::uint32_t layers = 1;
  std::uint32_t capacity = 1;  // of all
  std::uint32_t named = 1;     // of a layer's blocks in a step, in ascending order, as a predictor names them
  std::uint32_t steps = 1;     // through all layers; those of the first half do not count
  std::uint64_t seed = 1;
};

struct CacheTimes {
  // Seconds for each block of a step that was there (looked up by plan, admission and calls), and that was not: a slot for it, its
  // admission, and the eviction of another.
  double hit = 0, miss = 0;
  std::uint64_t hits = 0, misses = 0;  // that counted
};
// Throws ConfigError for an eviction that does not exist, or a probe of nothing.
CacheTimes probe_cache(const Clock& clock, const CacheProbe& probe);

}  // namespace vitro
