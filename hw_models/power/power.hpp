// Energy from activity: a base power, a power per busy unit, and energy per byte moved in DRAM and flash.
#pragma once
#include <string_view>

#include "engine/base/units.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

class FlowPower {
 public:
  // Consumes a device file's `power:` block:
  // {base: W, dram_byte: J/B, flash_byte: J/B, active_watts: {kind, source, big: 2.5, ...}}.
  explicit FlowPower(Reader& reader);

  double active_watts(std::string_view core_class) const;  // of a busy unit, above the base; 0 when the file names none
  // Joules over a window: of the units while they were busy, and of the bytes that moved.
  double energy(Picoseconds window, double unit_joules, double dram_bytes, double flash_bytes) const;
  // Watts, from the busiest millisecond of the units and of the DRAM. They need not be the same one: an upper bound.
  double peak(double unit_watts, double dram_bytes_per_second) const;

  const Params& params() const { return params_; }

 private:
  Params params_;
  double base_, dram_byte_, flash_byte_;
};

}  // namespace vitro::hw
