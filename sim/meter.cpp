#include "sim/meter.hpp"

#include <algorithm>

namespace vitro::sim {

void Meter::kernel_begins(std::size_t processor, Picoseconds at) {
  if (processors_[processor].kernel) return;
  at = advance(at);
  processors_[processor].kernel = true;
  ++kernels_;
  update(processor, at);
}

void Meter::kernel_ends(std::size_t processor, Picoseconds at) {
  if (!processors_[processor].kernel) return;
  at = advance(at);
  processors_[processor].kernel = false;
  --kernels_;
  update(processor, at);
}

// Policy work often goes on where the last one ended: that only moves an end.
void Meter::system_work(std::size_t processor, Picoseconds begin, Picoseconds end) {
  if (begin >= end) return;
  std::deque<Interval>& booked = processors_[processor].booked;
  if (!booked.empty() && booked.back().end == begin) {
    booked.back().end = end;
    return;
  }
  VITRO_CHECK(booked.empty() || booked.back().end < begin, "system work comes in order");
  booked.push_back({begin, end});
  if (booked.size() == 1) edges_.push({begin, 0, static_cast<std::uint32_t>(processor)});
}

void Meter::storage_begins(Picoseconds at) {
  ++outstanding_;
  edges_.push({at, 1});
}

void Meter::storage_ends(Picoseconds at) {
  --outstanding_;
  edges_.push({at, -1});
}

void Meter::set_draw(std::size_t processor, hw::PowerDraw draw, Picoseconds at) {
  at = advance(at);
  processors_[processor].draw = draw;
  update(processor, at);
}

Picoseconds Meter::advance(Picoseconds to) {
  while (!edges_.empty() && edges_.top().when <= to) {
    const Edge edge = edges_.top();
    edges_.pop();
    apply(edge);
  }
  return settled_ = std::max(settled_, to);
}

void Meter::settle(Picoseconds at) {
  at = advance(at);
  io_only_.settle(at);
  for (Processor& p : processors_) p.busy.settle(at);
  count_joules(at);
}

void Meter::apply(const Edge& edge) {
  if (edge.storage == 0 && processors_[edge.processor].system && processors_[edge.processor].booked.front().end > edge.when) {
    edges_.push({processors_[edge.processor].booked.front().end, 0, edge.processor});  // it was made longer
    return;
  }
  settled_ = std::max(settled_, edge.when);
  if (edge.storage == 0) return turn(edge.processor);
  storage_ += edge.storage;
  io_only_.set(storage_ > 0 && kernels_ == 0, settled_);
}

void Meter::turn(std::uint32_t index) {
  Processor& processor = processors_[index];
  processor.system = !processor.system;
  if (!processor.system) processor.booked.pop_front();
  if (!processor.booked.empty()) edges_.push({processor.system ? processor.booked.front().end : processor.booked.front().begin, 0, index});
  update(index, settled_);
}

// Watts are summed up anew, in order of processors: no rounding adds up over a long run.
void Meter::update(std::size_t processor, Picoseconds at) {
  Processor& changed = processors_[processor];
  changed.busy.set(changed.kernel || changed.system, at);
  io_only_.set(storage_ > 0 && kernels_ == 0, at);
  double watts = 0;
  for (const Processor& p : processors_) watts += p.kernel || p.system ? p.draw.busy : p.draw.idle;
  if (watts == watts_) return;
  count_joules(at);
  watts_ = watts;
}

void Meter::count_joules(Picoseconds at) {
  if (watts_ > 0) joules_.add(watts_since_, at, watts_ * to_seconds(at - watts_since_));
  watts_since_ = at;
}

double Meter::busy_seconds(std::size_t processor, Picoseconds begin, Picoseconds end) const {
  return processors_[processor].busy.seconds(begin, end);
}

std::size_t Meter::points() const {
  std::size_t sum = io_only_.points() + joules_.points();
  for (const Processor& p : processors_) sum += p.busy.points();
  return sum;
}

}  // namespace vitro::sim
