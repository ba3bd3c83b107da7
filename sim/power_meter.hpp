// PowerMeter: watts and joules of a simulated machine from what its units, its DRAM and its flash did, and the clocks that
// follow from heat when the device file has a `thermal:` block.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/trace.hpp"
#include "hw_models/context.hpp"
#include "hw_models/cumulative_sum.hpp"
#include "hw_models/power/load_governor.hpp"
#include "hw_models/power/thermal.hpp"
#include "sim/activity_meter.hpp"
#include "sim/soc.hpp"

namespace vitro::sim {

// Heat costs no events: nothing changes clocks but whole steps that have passed, and they matter when the next call begins.
// So a run that never gets hot is the run without a thermal model, to the event hash; so is one with a governor whose cores never wait.
class PowerMeter {
 public:
  // Processors that are not `used` are gated: they draw nothing. All arguments outlive it.
  PowerMeter(const hw::FlowPower& power, Soc& soc, Meter& meter, hw::Context& context, TraceSink& trace, std::vector<bool> used);

  // Before a call on a processor: heat and load up to now, and the clock that it will run at.
  void before_call(std::size_t processor) {
    if (thermal_ || governor_) set_clocks(processor);
  }
  // Clocks are for calls that begin before then what they are now; 0: one may change at once.
  Picoseconds steady_until() const;
  // Of its dynamic power, what a processor draws from now on while it runs neither kernels nor system work.
  void set_activity(std::size_t processor, double otherwise) {
    otherwise_[processor] = otherwise;
    set_draw(processor);
  }
  // Watts of a processor that is on and has nothing to do, at its clock of now.
  double leakage(std::size_t processor) const { return leakage_[processor]; }
  void dram_written(Bytes bytes) { dram_written_.add(context_.now(), context_.now(), static_cast<double>(bytes)); }
  void flash_written(Bytes bytes) { flash_written_.add(context_.now(), context_.now(), static_cast<double>(bytes)); }

  struct Joules {
    double base = 0, units = 0, dram = 0, flash = 0;
    double sum() const { return base + units + dram + flash; }
  };
  Joules parts(Picoseconds begin, Picoseconds end);  // of the phone itself, its processors, DRAM and flash
  double joules(Picoseconds begin, Picoseconds end) { return parts(begin, end).sum(); }
  using Shares = std::vector<std::pair<std::string, double>>;
  struct Drawn {
    Shares units;  // each used processor by its name, "dram", "flash", "base"
    Shares kinds;  // the same for all processors of the phone: "cores", accelerators by their block ("npu", "ane", "gpu"), and so on
  };
  Drawn drawn(Picoseconds begin, Picoseconds end, const Joules& parts) const;  // `parts` by who drew it; of the same window
  double peak_watts(Picoseconds begin, Picoseconds end);  // mean over a millisecond, or over as much as the sums resolve
  // For how much of the window clocks were low. Degrees and clocks "at the end" are those of the last step that has passed, which may lie
  // behind a window that was asked for late. Requires: begin < end.
  std::optional<std::string> thermal_note(Picoseconds begin, Picoseconds end);

 private:
  void heat_up_to(Picoseconds now);
  void set_clocks(std::size_t processor);
  double due_share(std::size_t processor) const;  // of its full clock, by heat and load up to now
  void follow_load(Picoseconds now);
  double load_of(std::string_view core_class) const;
  void set_clock(std::size_t processor);
  void set_draw(std::size_t processor);
  hw::PowerDraw draw_of(std::size_t processor) const {
    return power_.draw(soc_.processors()[processor].core_class, clock_share_[processor]);
  }

  const hw::FlowPower& power_;
  Soc& soc_;
  Meter& meter_;
  hw::Context& context_;
  TraceSink& trace_;
  std::vector<bool> used_;
  std::vector<double> otherwise_;  // shares of dynamic power
  std::vector<double> leakage_;    // watts: asked for at the end of each call
  hw::CumulativeSum dram_written_, flash_written_;

  std::optional<hw::ThermalNode> thermal_;
  std::optional<hw::LoadGovernor> governor_;
  std::vector<double> load_;         // of each processor, in the governor's measure
  Picoseconds loaded_{0};            // whole periods so far
  std::vector<double> clock_share_;  // of each processor, as last set
  Picoseconds heated_{0};            // whole steps so far
  double joules_before_ = 0;         // that they contain
  Stopwatch throttled_;
  TrackId temperature_track_{}, clock_track_{};
};

}  // namespace vitro::sim
