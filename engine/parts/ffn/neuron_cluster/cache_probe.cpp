#include "engine/parts/ffn/neuron_cluster/cache_probe.hpp"

#include <vector>

#include "engine/base/config.hpp"
#include "engine/base/rng.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_cache.hpp"

namespace vitro {
namespace {

struct Loaded {
  std::uint32_t block = 0, slot = 0;
};

// Each block with the same chance, so that some of a step were there in the last one and some were not.
std::vector<std::uint32_t> draw(Rng& rng, const CacheProbe& probe, std::uint32_t layer) {
  std::vector<std::uint32_t> named;
  for (std::uint32_t block = 0; block < probe.blocks; ++block) {
    if (rng.below(probe.blocks) < probe.named) named.push_back(layer * probe.blocks + block);
  }
  return named;
}

}  // namespace

CacheTimes probe_cache(const Clock& clock, const CacheProbe& probe) {
  if (probe.named == 0 || probe.named > probe.blocks || probe.layers == 0 || probe.steps < 2 || probe.capacity == 0) {
    throw ConfigError("probe: expected blocks, layers and capacity of 1 or more, named of at most blocks, and steps of 2 or more");
  }
  NeuronCache cache(probe.blocks * probe.layers, probe.capacity, probe.blocks, probe.eviction, 0, probe.layers);
  Rng rng(probe.seed);
  CacheTimes times;
  Picoseconds in_hits{0}, in_misses{0};
  std::vector<std::uint32_t> hits;
  std::vector<Loaded> loads;
  std::uint64_t places = 0;  // as the calls name them: so that no look-up is left out
  for (std::uint32_t step = 0; step < probe.steps; ++step) {
    for (std::uint32_t layer = 0; layer < probe.layers; ++layer) {
      const std::vector<std::uint32_t> named = draw(rng, probe, layer);
      hits.clear();
      loads.clear();
      const Picoseconds begin = clock.now();
      for (const std::uint32_t block : named) {
        if (!cache.resident(block)) {
          loads.push_back({block, NeuronCache::kNone});
          continue;
        }
        cache.pin(block);
        if (!cache.half(block)) hits.push_back(block);
      }
      for (const std::uint32_t block : hits) places += cache.slot_of(block);
      for (const std::uint32_t block : hits) {
        if (!cache.half(block)) cache.touch(block);
        places += cache.slot_of(block);
      }
      const Picoseconds looked = clock.now();
      std::uint32_t from = 0;
      for (Loaded& load : loads) from = load.slot = cache.take_slot(from);
      for (const Loaded& load : loads) {
        if (!cache.admit(load.block, load.slot).stays) cache.give_back(load.slot);
      }
      const Picoseconds admitted = clock.now();
      cache.unpin_all();
      if (step < probe.steps / 2) continue;
      in_hits += looked - begin;
      in_misses += admitted - looked;
      times.hits += hits.size();
      times.misses += loads.size();
    }
    cache.next_token();
  }
  VITRO_CHECK(times.hits == 0 || places > 0, "look-ups that led nowhere");
  // A step that finds nothing still looks: the few look-ups of misses stand with the hits.
  if (times.hits > 0) times.hit = to_seconds(in_hits) / static_cast<double>(times.hits);
  if (times.misses > 0) times.miss = to_seconds(in_misses) / static_cast<double>(times.misses);
  return times;
}

}  // namespace vitro
