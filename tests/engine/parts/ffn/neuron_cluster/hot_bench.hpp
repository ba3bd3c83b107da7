// What the tests of hot neurons share: a region over the store of the bench.
#pragma once
#include <array>
#include <utility>
#include <vector>

#include "engine/parts/ffn/neuron_cluster/hot_region.hpp"
#include "tests/engine/parts/ffn/neuron_cluster/bench.hpp"

namespace vitro {

constexpr std::array<std::int16_t, 1> kOnlyFfn{-1};  // of a layer without experts

// On the first unit, read by the last one.
inline HotRegionOptions hot_options(Bench& bench, std::vector<HotRegionOptions::Split> splits) {
  HotRegionOptions options;
  options.unit = bench.machine().units.front();
  options.splits = std::move(splits);
  options.cluster_neurons = 4;
  options.max_rows = 8;
  options.io_core = UnitId(bench.machine().units.size() - 1);
  return options;
}

}  // namespace vitro
