#include "engine/parts/ffn/experts/layer_loads.hpp"

#include <utility>

namespace vitro {

std::vector<LayerLoad> layer_loads(const ExpertLoads& loads, const ChunkCounts& counts, const TierRule& rule) {
  const std::vector<std::vector<OverflowCurve>> curves = overflow_curves(loads, counts, rule);
  std::vector<std::vector<std::uint32_t>> shapes = capacities(loads, curves, rule);
  std::vector<LayerLoad> out;
  for (std::size_t layer = 0; layer < shapes.size(); ++layer) {
    LayerLoad& load = out.emplace_back();
    for (std::size_t e = 0; e < shapes[layer].size(); ++e) {
      load.expected.push_back(expected_rows(loads[layer][e], rule));
      load.overflow.push_back(curves[layer][e].beyond(shapes[layer][e]));
    }
    load.capacity = std::move(shapes[layer]);
  }
  return out;
}

}  // namespace vitro
