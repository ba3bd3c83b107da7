// Energy from activity: a base power, static and dynamic power of each unit, and energy per byte moved in DRAM and flash.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/units.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

struct PowerDraw {
  double idle = 0, stalled = 0, busy = 0;  // watts; a busy unit's idle power is part of the others
  Picoseconds collapses_after = Picoseconds::max();  // of waiting: then the rail of the unit is off, and it draws nothing
};

// The law: at a share s of the full clock a unit runs at the voltage V(s) = floor + (1 - floor) s of that at full clock; its
// dynamic power goes with s V^2 (switching), its static power with V (leakage). While a busy unit waits for memory, it draws
// `stalled_share` of its dynamic power: clocks and what keeps the order of instructions go on, data paths rest.
class FlowPower {
 public:
  // Consumes a device file's `power:` block (docs/design/power.md):
  // {base: W, dram_byte: J/B, flash_byte: J/B, active_watts: {kind, source, big: 2.5, ...}, idle_watts: {...},
  // stalled_share: {big: 0.5, ...}, collapse_after_us: {big: 7480, ...}, governor: {...}, thermal: {...}}.
  explicit FlowPower(Reader& reader);

  PowerDraw draw(std::string_view core_class, double clock_share) const;  // 0 for classes that the file does not name
  double base() const { return base_; }
  double dram_joules(double bytes, double of_them_written) const {
    return bytes * dram_read_ + of_them_written * (dram_write_ - dram_read_);
  }
  double flash_joules(double bytes, double of_them_written) const {
    return bytes * flash_read_ + of_them_written * (flash_write_ - flash_read_);
  }

  const Params* thermal() const { return thermal_ ? &*thermal_ : nullptr; }  // of a ThermalNode, when the file asks for one
  const Params* governor() const { return governor_ ? &*governor_ : nullptr; }  // of a LoadGovernor, likewise
  std::vector<const Params*> params() const;

 private:
  Params params_;
  std::optional<Params> thermal_, governor_;
  double base_, dram_read_, dram_write_, flash_read_, flash_write_, voltage_floor_;
};

}  // namespace vitro::hw
