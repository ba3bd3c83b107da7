// Books: what a simulated machine writes down of its processors, memory and energy, told as it happens.
#pragma once
#include <cstddef>
#include <cstdint>

#include "hw_models/dram.hpp"
#include "sim/activity_meter.hpp"
#include "sim/energy_causes.hpp"
#include "sim/executor.hpp"
#include "sim/power_meter.hpp"
#include "sim/tape.hpp"

namespace vitro::sim {

// One entrance to all meters for whatever may be repeated (phase_repeater.hpp): what is told here goes on a tape, too, while there is one.
// Now is the devices' time.
class Books final : public hw::DramListener {
 public:
  // power and causes: null without a power model.
  Books(SimExecutor& executor, Meter& meter, PowerMeter* power, EnergyCauses* causes)
      : executor_(executor), meter_(meter), power_(power), causes_(causes) {}

  void kernel_begins(std::size_t processor) {
    note(Tape::KernelBegins{static_cast<std::uint32_t>(processor)});
    meter_.kernel_begins(processor, executor_.device_now());
    if (power_ != nullptr) power_->before_call(processor);
  }
  void chain_ends(std::uint32_t unit, std::size_t processor) {
    note(Tape::ChainEnds{unit});
    meter_.kernel_ends(processor, executor_.device_now());
  }
  // A call, or a piece, that ends now: when it began, how long it would have taken without memory, and bytes that it moved.
  struct CallEnd {
    Picoseconds began, computed;
    Bytes written, weights, others;
  };
  void call_ends(std::size_t processor, CallEnd call) {
    if (tape_ != nullptr) [[unlikely]]
      note(Tape::CallEnds{static_cast<std::uint32_t>(processor), call.began - tape_->begin, call.computed, call.written, call.weights,
                          call.others});
    const Picoseconds now = executor_.device_now();
    power_->dram_written(call.written);
    meter_.computed(processor, call.began, now, call.computed);
    causes_->moved(now, call.weights, call.others);
  }
  // It drew power for a cause, of `seconds` for `computed` at its full draw.
  void draws(std::size_t processor, Cause cause, double seconds, double computed) {
    note(Tape::Draws{static_cast<std::uint32_t>(processor), cause, seconds, computed});
    const hw::PowerDraw& draw = meter_.draw(processor);
    const double waits = draw.stalled - power_->leakage(processor);  // what it leaks is no call's
    causes_->drew(cause, executor_.device_now(), waits * seconds + (draw.busy - draw.stalled) * computed);
  }
  void system_works(std::size_t processor, SystemWork kind, Picoseconds begin, Picoseconds duration) {
    if (tape_ != nullptr) [[unlikely]]
      note(Tape::Works{static_cast<std::uint32_t>(processor), kind, begin - tape_->begin, duration});
    meter_.system_work(processor, begin, begin + duration);
  }
  void executes(std::uint32_t unit, std::size_t call) { note(Tape::Executes{unit, static_cast<std::uint32_t>(call)}); }
  void fails() {
    if (tape_ != nullptr) tape_->whole = false;
  }

  // Everything that is told, and the executor's events; null: no more.
  void record(Tape* tape) {
    tape_ = tape;
    executor_.record(tape);
  }
  // While it listens to a memory model, which keeps its own books.
  void rate(double bytes_per_second) override { note(Tape::MemoryRate{bytes_per_second}); }
  void moved(double read, double written) override { note(Tape::MemoryMoved{read, written}); }

 private:
  template <class Step>
  void note(const Step& step) {
    if (tape_ != nullptr) [[unlikely]]
      append(step);
  }
  template <class Step>
  [[gnu::noinline, gnu::cold]] void append(const Step& step) {
    tape_->steps.emplace_back(step);
  }

  SimExecutor& executor_;
  Meter& meter_;
  PowerMeter* power_;
  EnergyCauses* causes_;
  Tape* tape_ = nullptr;
};

}  // namespace vitro::sim
