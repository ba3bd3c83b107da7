// Energy from activity: a base power, a power per busy unit, and energy per byte moved in DRAM and flash.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "hw_models/params.hpp"
#include "hw_models/time_bins.hpp"

namespace vitro::hw {

class FlowPower {
 public:
  // Consumes a device file's `power:` block: {base, dram_byte, flash_byte, active: {kind, source, big: W, ...}}.
  explicit FlowPower(Reader& reader);

  void unit_active(std::string_view core_class, Picoseconds begin, Picoseconds end);
  // Joules over a window; bytes of the same window come from the models that moved them.
  double energy(Picoseconds begin, Picoseconds end, double dram_bytes, double flash_bytes) const;
  // Largest mean power of one millisecond; the memory's part is that of its busiest millisecond.
  double peak(Picoseconds begin, Picoseconds end, double dram_rate) const;

  const Params& params() const { return params_; }

 private:
  Params params_;
  double base_, dram_byte_, flash_byte_;
  TimeBins units_;  // joules
};

}  // namespace vitro::hw
