#include "sim/power_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vitro::sim {

PowerMeter::PowerMeter(const hw::FlowPower& power, Soc& soc, Meter& meter, hw::Context& context, TraceSink& trace, std::vector<bool> used)
    : power_(power),
      soc_(soc),
      meter_(meter),
      context_(context),
      trace_(trace),
      used_(std::move(used)),
      otherwise_(used_.size(), 0),
      leakage_(used_.size(), 0),
      clock_share_(used_.size(), 1) {
  if (power_.thermal() != nullptr) {
    thermal_.emplace(*power_.thermal());
    temperature_track_ = trace_.track("power", "temperature");
    clock_track_ = trace_.track("power", "clock share");
  }
  if (power_.governor() != nullptr) {
    governor_.emplace(*power_.governor());
    load_.assign(used_.size(), 1);  // what reads and prepares a model has kept the cores busy
  }
  for (std::size_t p = 0; p < used_.size(); ++p) set_clock(p);
}

void PowerMeter::set_clock(std::size_t processor) {
  leakage_[processor] = draw_of(processor).idle;
  if (!used_[processor]) return;
  const Processor& p = soc_.processors()[processor];
  p.model->set_clock_scale(clock_share_[processor]);
  set_draw(processor);
}

void PowerMeter::set_draw(std::size_t processor) {
  if (!used_[processor]) return;
  hw::PowerDraw draw = draw_of(processor);
  draw.idle += otherwise_[processor] * (draw.busy - draw.idle);
  meter_.set_draw(processor, draw, context_.now());
}

void PowerMeter::set_clocks(std::size_t processor) {
  if (thermal_) heat_up_to(context_.now());
  if (governor_) follow_load(context_.now());
  for (std::size_t p = 0; p < used_.size(); ++p) {
    const double share = due_share(p);
    // A call keeps the clock that it began with, and draws power for it.
    if (clock_share_[p] == share || (p != processor && meter_.runs_kernel(p))) continue;
    clock_share_[p] = share;
    set_clock(p);
  }
}

double PowerMeter::due_share(std::size_t processor) const {
  const double cool = thermal_ ? thermal_->clock_share() : 1;
  const std::string_view core_class = soc_.processors()[processor].core_class;
  if (!governor_ || !governor_->governs(core_class)) return cool;
  return std::min(cool, governor_->clock_share(core_class, load_of(core_class)));
}

Picoseconds PowerMeter::steady_until() const {
  Picoseconds until = Picoseconds::max();
  if (thermal_) until = heated_ + thermal_->step();
  if (governor_) until = std::min(until, loaded_ + governor_->period());
  if (until == Picoseconds::max()) return until;
  for (std::size_t p = 0; p < used_.size(); ++p) {
    if (clock_share_[p] != due_share(p)) return Picoseconds(0);
  }
  return until;
}

// Of all cores of a class, which share a clock.
double PowerMeter::load_of(std::string_view core_class) const {
  double most = 0;
  for (std::size_t p = 0; p < used_.size(); ++p) {
    if (used_[p] && soc_.processors()[p].core_class == core_class) most = std::max(most, load_[p]);
  }
  return most;
}

void PowerMeter::follow_load(Picoseconds now) {
  const Picoseconds period = governor_->period();
  if (loaded_ + period > now) return;
  meter_.settle(now);
  for (; loaded_ + period <= now; loaded_ += period) {
    for (std::size_t p = 0; p < used_.size(); ++p) {
      const double busy = meter_.busy_seconds(p, loaded_, loaded_ + period) / to_seconds(period);
      load_[p] = governor_->load_after(load_[p], std::min(busy, 1.0), clock_share_[p]);
    }
  }
}

void PowerMeter::heat_up_to(Picoseconds now) {
  if (heated_ + thermal_->step() > now) return;
  meter_.settle(now);
  while (heated_ + thermal_->step() <= now) {
    heated_ += thermal_->step();
    // From totals, so that what the sums round off in one step they give back in the next.
    const double total = joules(Picoseconds(0), heated_);
    thermal_->advance((total - std::exchange(joules_before_, total)) / to_seconds(thermal_->step()));
    throttled_.set(thermal_->throttled(), heated_);
    if (trace_.enabled()) {
      trace_.counter(temperature_track_, heated_, thermal_->degrees());
      trace_.counter(clock_track_, heated_, thermal_->clock_share());
    }
  }
}

PowerMeter::Joules PowerMeter::parts(Picoseconds begin, Picoseconds end) {
  return {.base = power_.base() * to_seconds(end - begin),
          .units = meter_.joules(begin, end),
          .dram = power_.dram_joules(soc_.dram().bytes_moved(begin, end), dram_written_.sum(begin, end)),
          .flash = power_.flash_joules(soc_.storage().bytes_moved(begin, end), flash_written_.sum(begin, end))};
}

// A processor's sum and that of all resolve windows of a long run at different points, so shares are scaled to what all drew.
PowerMeter::Drawn PowerMeter::drawn(Picoseconds begin, Picoseconds end, const Joules& parts) const {
  double all = 0;
  for (std::size_t p = 0; p < used_.size(); ++p) all += meter_.joules(p, begin, end);
  Drawn drawn;
  for (std::size_t p = 0; p < used_.size(); ++p) {
    const Processor& processor = soc_.processors()[p];
    const double joules = all > 0 ? parts.units * meter_.joules(p, begin, end) / all : 0;
    if (used_[p]) drawn.units.emplace_back(processor.name, joules);
    const std::string_view kind = processor.kind == UnitKind::core ? std::string_view("cores") : processor.core_class;
    if (drawn.kinds.empty() || drawn.kinds.back().first != kind) drawn.kinds.emplace_back(kind, 0);
    drawn.kinds.back().second += joules;
  }
  for (Shares* shares : {&drawn.units, &drawn.kinds}) {
    shares->insert(shares->end(), {{"dram", parts.dram}, {"flash", parts.flash}, {"base", parts.base}});
  }
  return drawn;
}

double PowerMeter::peak_watts(Picoseconds begin, Picoseconds end) {
  const Picoseconds resolved = (end - begin) / static_cast<std::int64_t>(hw::CumulativeSum::kMaxPoints);
  const Picoseconds width = std::min(std::max(hw::CumulativeSum::kPeakWindow, resolved), end - begin);
  double peak = 0;
  for (Picoseconds from = begin; width.count() > 0 && from + width <= end; from += width) {
    peak = std::max(peak, joules(from, from + width) / to_seconds(width));
  }
  return peak;
}

std::optional<std::string> PowerMeter::thermal_note(Picoseconds begin, Picoseconds end) {
  if (!thermal_) return std::nullopt;
  heat_up_to(end);
  throttled_.settle(end);
  const double share = throttled_.seconds(begin, end) / to_seconds(end - begin);
  return fmt::format("thermal: {:.1f} degC at the end, {:.1f} at most; clocks lowered for {:.1f} % of the time, to {:.0f} % at the end",
                     thermal_->degrees(), thermal_->highest_degrees(), 100 * share, 100 * thermal_->clock_share());
}

}  // namespace vitro::sim
