#include "engine/parts/ffn/experts/cold_by_time.hpp"

#include <algorithm>

namespace vitro {

double layer_seconds(const LayerLoad& load, const LayerPlacement& placement, const GroupRule& rule, const ExpertPrices& prices) {
  std::vector<double> units(rule.units, 0.0);
  for (const StaticGroup& group : placement.groups) units.at(group.unit) += prices.of_launch(group);
  double cores = 0;
  for (std::size_t e = 0; e < load.expected.size(); ++e) {
    if (placement.capacity[e] == 0) cores += prices.on_cores(load.expected[e]);
  }
  return std::max(cores, *std::max_element(units.begin(), units.end()));
}

LayerPlacement place_by_time(const LayerLoad& load, const GroupRule& rule, const ExpertPrices& prices, std::uint64_t graphs) {
  LayerPlacement best;
  double seconds = -1;
  for (std::uint32_t cold = 0; cold <= load.expected.size(); ++cold) {
    for (const double launch_rows : {0.0, rule.launch_rows}) {
      GroupRule own = rule;
      own.cold = cold, own.cold_rows = 0, own.launch_rows = launch_rows;
      LayerPlacement placement = place_experts(load, own);
      const double time = layer_seconds(load, placement, own, prices);
      if (placement.groups.size() > graphs || (seconds >= 0 && time >= seconds)) continue;
      best = std::move(placement);
      seconds = time;
    }
  }
  return best;
}

}  // namespace vitro
