// Lanes in which units compute the clusters of a layer: each unit has as many as calls may be under way there, so that the next one is
// there when one ends.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/machine/signal.hpp"

namespace vitro {

class UnitLanes {
 public:
  explicit UnitLanes(Executor& executor) : changed_(executor) {}

  void begin(std::size_t units) {
    under_way_.assign(units, 0);
    called_.assign(units, 0);
    away_.assign(units, false);
    idle_ = static_cast<std::uint32_t>(units);
    woken_ = 0;
  }
  // A unit that has something else to do takes nothing, and nobody waits for it to. Who comes back has to be woken.
  void set_away(std::uint32_t unit, bool away) {
    idle_ -= idle(unit);
    away_[unit] = away;
    idle_ += idle(unit);
  }
  void call_begins(std::uint32_t unit) {
    idle_ -= idle(unit);
    ++under_way_[unit];
  }
  void call_ends(std::uint32_t unit) {
    --under_way_[unit];
    idle_ += idle(unit);
  }

  // Nothing waits behind another cluster while a unit has nothing at all to do.
  bool in_turn(std::uint32_t unit) const { return !away_[unit] && (under_way_[unit] == 0 || all_busy()); }

  // Until there may be something for this unit. Who then finds that it is not in its turn has to wake() whoever is.
  auto wait(std::uint32_t unit) {
    struct Woken : Signal::Changed {
      UnitLanes& lanes;
      void await_resume() const {
        --lanes.called_[tag];
        --lanes.woken_;
      }
    };
    return Woken{changed_.changed(unit), *this};
  }

  // As many lanes as there are clusters for, in the order in which they came; while a unit has nothing to do, one of its own is the only
  // one in its turn. Reads come in bursts: were all to look each time, nine of ten would find nothing.
  void wake(std::uint32_t clusters) {
    const bool anybody = all_busy();
    const auto fits = [&](std::uint32_t unit) { return !away_[unit] && (anybody || under_way_[unit] + called_[unit] == 0); };
    while (woken_ < clusters && wake_first(fits)) {}
  }
  void wake_all() {
    while (wake_first([](std::uint32_t) { return true; })) {}
  }

 private:
  bool idle(std::uint32_t unit) const { return under_way_[unit] == 0 && !away_[unit]; }
  bool all_busy() const { return idle_ == 0; }
  template <class Fits>
  bool wake_first(Fits fits) {
    const std::optional<std::uint32_t> unit = changed_.notify_first(fits);
    if (unit) ++called_[*unit], ++woken_;
    return unit.has_value();
  }

  Signal changed_;
  std::vector<std::uint32_t> under_way_, called_;  // by unit: calls; lanes that were woken and have not looked yet
  std::vector<bool> away_;
  std::uint32_t idle_ = 0, woken_ = 0;  // units that are; lanes that were woken and have not looked yet, of all units
};

}  // namespace vitro
