// ThermalNode: one thermal resistance and one capacity from the chip to the air, and the governor that lowers clocks when the
// node is too hot.
#pragma once
#include <vector>

#include "engine/base/units.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

// R C dT/dt = ambient + R P - T, by implicit Euler: stable for any step, and without functions whose last bit depends on the
// machine. After each step the clocks move by at most one entry of the table: down above `trip`, up below `trip - hysteresis`.
class ThermalNode {
 public:
  // Consumes a `thermal:` block; throws ConfigError.
  static Params read(Reader& reader);
  explicit ThermalNode(const Params& params);

  Picoseconds step() const { return step_; }
  void advance(double watts);  // by one step

  double degrees() const { return degrees_; }
  double highest_degrees() const { return highest_; }
  double clock_share() const { return shares_[level_]; }
  bool throttled() const { return level_ > 0; }

 private:
  double resistance_;  // kelvin per watt
  double ambient_, trip_, hysteresis_;
  Picoseconds step_;
  double share_;                // the step in time constants
  std::vector<double> shares_;  // of the full clock: 1, then downwards
  std::size_t level_ = 0;
  double degrees_, highest_;
};

}  // namespace vitro::hw
