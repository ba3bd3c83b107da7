// LoadGovernor: the clock that a core's load is worth, as Linux chooses it. A core that waits part of the time gets a lower clock, and
// draws less while it computes.
#pragma once
#include <string_view>

#include "engine/base/units.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

// Linux, Documentation/scheduler/schedutil.rst: per-entity load tracking weighs the time that a core was busy in periods of 1024 us, each
// by y of the one after it, y^32 = 0.5, and scales it by the clock of that time; the next clock is 1.25 x the highest x that load. Cores of
// a class share a clock and follow the most loaded of them. Without functions whose last bit depends on the machine.
class LoadGovernor {
 public:
  // Consumes a `governor:` block {period, decay, headroom, lowest: {kind, source, big: 0.15, ...}}; throws ConfigError.
  static Params read(Reader& reader);
  explicit LoadGovernor(const Params& params);

  Picoseconds period() const { return period_; }
  bool governs(std::string_view core_class) const { return lowest_.contains(core_class); }
  // The load, from 0 to 1, after a period in which a core was busy for a share of the time, at a share of its highest clock.
  double load_after(double load, double busy, double clock_share) const { return decay_ * load + (1 - decay_) * busy * clock_share; }
  // The clock for a load, as a share of the highest one. Requires: governs(core_class).
  double clock_share(std::string_view core_class, double load) const;

 private:
  Picoseconds period_;
  double decay_, headroom_;
  std::map<std::string, double, std::less<>> lowest_;  // shares of the highest clock
};

}  // namespace vitro::hw
