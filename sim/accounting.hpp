// Accounting: how units and memory report activity and energy to the meters of a simulated machine.
#pragma once
#include <cstddef>
#include <cstdint>

#include "hw_models/dram.hpp"
#include "sim/activity_meter.hpp"
#include "sim/energy_causes.hpp"
#include "sim/executor.hpp"
#include "sim/phase_record.hpp"
#include "sim/power_meter.hpp"

namespace vitro::sim {

// Reports that a repeated phase has to make again (phase_repeater.hpp) go through here, and are appended to a record if one is set. They
// are of the devices' present time.
class Accounting final : public hw::DramListener {
 public:
  // power and causes: null without a power model.
  Accounting(SimExecutor& executor, Meter& meter, PowerMeter* power, EnergyCauses* causes)
      : executor_(executor), meter_(meter), power_(power), causes_(causes) {}

  void kernel_begins(std::size_t processor) {
    note(PhaseRecord::KernelBegins{static_cast<std::uint32_t>(processor)});
    meter_.kernel_begins(processor, executor_.device_now());
    if (power_ != nullptr) power_->before_call(processor);
  }
  void chain_ends(std::uint32_t unit, std::size_t processor) {
    note(PhaseRecord::ChainEnds{unit});
    meter_.kernel_ends(processor, executor_.device_now());
  }
  // A call, or a piece. Requires: there is a power model, here and for draws().
  void call_ends(const PhaseRecord::CallEnds& call) {
    if (record_ != nullptr) [[unlikely]] {
      PhaseRecord::CallEnds relative = call;
      relative.began -= record_->begin;
      append(relative);
    }
    const Picoseconds now = executor_.device_now();
    power_->dram_written(call.written);
    meter_.computed(call.processor, call.began, now, call.computed);
    causes_->moved(now, call.weights, call.others);
  }
  // It drew power for a cause, of `seconds` for `computed` at its full draw.
  void draws(std::size_t processor, Cause cause, double seconds, double computed) {
    note(PhaseRecord::Draws{static_cast<std::uint32_t>(processor), cause, seconds, computed});
    const hw::PowerDraw& draw = meter_.draw(processor);
    const double waits = draw.stalled - power_->leakage(processor);  // what it leaks is no call's
    causes_->drew(cause, executor_.device_now(), waits * seconds + (draw.busy - draw.stalled) * computed);
  }
  // Drivers and policy, on a core.
  void system_works(std::size_t processor, SystemWork kind, Picoseconds begin, Picoseconds duration) {
    if (record_ != nullptr) [[unlikely]]
      note(PhaseRecord::CoreTaken{static_cast<std::uint32_t>(processor), kind, begin - record_->begin, duration});
    meter_.system_work(processor, begin, begin + duration);
  }
  void executes(std::uint32_t unit, std::size_t call) { note(PhaseRecord::Executes{unit, static_cast<std::uint32_t>(call)}); }
  void fails() {
    if (record_ != nullptr) record_->failed = true;
  }

  // Where reports and the executor's events are recorded; null: nowhere.
  void record_to(PhaseRecord* record) {
    record_ = record;
    executor_.record_to(record);
  }
  // From a memory model, which has meters of its own.
  void rate(double bytes_per_second) override { note(PhaseRecord::MemoryRate{bytes_per_second}); }
  void moved(double read, double written) override { note(PhaseRecord::MemoryMoved{read, written}); }

 private:
  template <class Step>
  void note(const Step& step) {
    if (record_ != nullptr) [[unlikely]]
      append(step);
  }
  template <class Step>
  [[gnu::noinline, gnu::cold]] void append(const Step& step) {
    record_->steps.emplace_back(step);
  }

  SimExecutor& executor_;
  Meter& meter_;
  PowerMeter* power_;
  EnergyCauses* causes_;
  PhaseRecord* record_ = nullptr;
};

}  // namespace vitro::sim
