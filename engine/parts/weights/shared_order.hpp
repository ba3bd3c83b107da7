// The order in which units that share places for weights take the items of a phase.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "engine/parts/weights/residency.hpp"

namespace vitro {

// Calls add(unit, item) once for each item of the phase, those of a unit in the order of its queue. Units may have items that others
// lack. Whoever needs what is there comes first, then what most are about to need: so nothing is read twice because one unit is an item
// ahead. lacks(item): the first thing that is not there, as an optional that can be compared; add() may change the answer.
template <class Lacks, class Add>
void in_shared_order(const UnitQueues& phase, Lacks lacks, Add add) {
  std::vector<std::size_t> next(phase.size());
  const auto left = [&](std::size_t unit) { return next[unit] < phase[unit].size(); };
  const auto wants = [&](std::size_t unit) {
    return left(unit) ? lacks(phase[unit][next[unit]]) : decltype(lacks(phase[unit][next[unit]])){};
  };
  for (;;) {
    for (std::size_t unit = 0; unit < phase.size(); ++unit) {
      while (left(unit) && !wants(unit)) add(unit, next[unit]++);
    }
    std::optional<std::size_t> best;
    std::ptrdiff_t most = 0;
    for (std::size_t unit = 0; unit < phase.size(); ++unit) {
      std::ptrdiff_t wanted = 0;
      for (std::size_t other = 0; left(unit) && other < phase.size(); ++other) wanted += wants(other) == wants(unit);
      if (wanted > most) best = unit, most = wanted;
    }
    if (!best) return;
    add(*best, next[*best]++);
  }
}

}  // namespace vitro
