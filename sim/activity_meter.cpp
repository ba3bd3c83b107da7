#include "sim/activity_meter.hpp"

#include <algorithm>
#include <iterator>

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
  if (processors_[processor].edge == kNone) expect_edges(processor);
  std::deque<Interval>& booked = processors_[processor].booked;
  if (!booked.empty() && booked.back().end == begin) {
    booked.back().end = end;
    return note_edge(processor);
  }
  VITRO_CHECK(booked.empty() || booked.back().end < begin, "system work comes in order");
  booked.push_back({begin, end});
  note_edge(processor);
  next_edge_ = std::min(next_edge_, processors_[processor].next_edge());
}

// In order of processors, which is that of edges at one time.
void Meter::expect_edges(std::size_t processor) {
  edges_.insert(std::ranges::upper_bound(edges_, processor, {}, &Edge::processor), {Picoseconds::max(), processor});
  for (std::size_t i = 0; i < edges_.size(); ++i) processors_[edges_[i].processor].edge = i;
}

void Meter::storage_begins(Picoseconds at, std::uint32_t requests) {
  outstanding_ += requests;
  // Mostly the latest so far.
  auto place = storage_begins_.end();
  while (place != storage_begins_.begin() && *std::prev(place) > at) --place;
  storage_begins_.insert(place, at);
  next_edge_ = std::min(next_edge_, at);
}

void Meter::storage_ends(Picoseconds at, std::uint32_t requests) {
  outstanding_ -= requests;
  advance(at);
  count_storage(-1);
}

void Meter::count_storage(std::int32_t change) {
  storage_ += change;
  io_only_.set(storage_ > 0 && kernels_ == 0, settled_);
}

void Meter::set_draw(std::size_t processor, hw::PowerDraw draw, Picoseconds at) {
  at = advance(at);
  count_collapsed(processors_[processor], at);
  processors_[processor].draw = draw;
  update(processor, at);
}

Picoseconds Meter::advance(Picoseconds to) {
  while (next_edge_ <= to) {
    std::size_t whose = kNone;  // storage
    Picoseconds first = storage_begins_.empty() ? Picoseconds::max() : storage_begins_.front();
    for (const Edge& edge : edges_) {
      if (edge.when < first) {
        first = edge.when;
        whose = edge.processor;
      }
    }
    next_edge_ = first;  // an end may have been moved meanwhile
    if (first > to) break;
    settled_ = std::max(settled_, first);
    if (whose == kNone) {
      storage_begins_.pop_front();
      count_storage(+1);
    } else {
      turn(whose);
    }
  }
  return settled_ = std::max(settled_, to);
}

void Meter::settle(Picoseconds at) {
  at = advance(at);
  io_only_.settle(at);
  for (std::size_t i = 0; i < processors_.size(); ++i) {
    processors_[i].busy.settle(at);
    count_collapsed(processors_[i], at);
    count_drawn(i, at);
  }
  count_joules(at);
}

void Meter::turn(std::size_t index) {
  Processor& processor = processors_[index];
  processor.system = !processor.system;
  if (!processor.system) processor.booked.pop_front();
  note_edge(index);
  update(index, settled_);
}

// Watts are summed up anew, in order of processors: no rounding adds up over a long run.
void Meter::update(std::size_t processor, Picoseconds at) {
  Processor& changed = processors_[processor];
  const bool busy = changed.kernel || changed.system;
  if (busy && !changed.busy.on()) count_collapsed(changed, at);
  if (!busy && changed.busy.on()) changed.waits_since = at;
  changed.busy.set(busy, at);
  io_only_.set(storage_ > 0 && kernels_ == 0, at);
  const double draw = changed.system ? changed.draw.busy : changed.kernel ? changed.draw.stalled : changed.draw.idle;
  if (draw == draws_[processor]) return;
  count_drawn(processor, at);
  draws_[processor] = draw;
  double watts = 0;
  for (const double each : draws_) watts += each;
  if (watts == watts_) return;
  count_joules(at);
  watts_ = watts;
}

// Of the wait that goes on. A core that waits for longer than its idle state asks for is switched off.
void Meter::count_collapsed(Processor& p, Picoseconds at) {
  if (p.busy.on() || p.draw.idle == 0 || at - p.waits_since <= p.draw.collapses_after) return;
  const Picoseconds from = std::max(p.waits_since + p.draw.collapses_after, p.collapsed_until);
  if (at <= from) return;
  p.collapsed.add(from, at, p.draw.idle * to_seconds(at - from));
  p.collapsed_until = at;
}

void Meter::count_joules(Picoseconds at) {
  if (watts_ > 0) joules_.add(watts_since_, at, watts_ * to_seconds(at - watts_since_));
  watts_since_ = at;
}

void Meter::count_drawn(std::size_t processor, Picoseconds at) {
  Processor& p = processors_[processor];
  if (draws_[processor] > 0) p.drawn.add(p.drawn_until, at, draws_[processor] * to_seconds(at - p.drawn_until));
  p.drawn_until = at;
}

// Evenly: cores compute on what has arrived while more is on its way. System work within a call is not part of `time`, and has
// drawn all along.
void Meter::computed(std::size_t processor, Picoseconds begin, Picoseconds end, Picoseconds time) {
  Processor& p = processors_[processor];
  const double beyond = p.draw.busy - p.draw.stalled;
  if (beyond > 0) p.computing.add(begin, end, beyond * to_seconds(std::min(time, end - begin)));
}

double Meter::joules(Picoseconds begin, Picoseconds end) const {
  double sum = joules_.sum(begin, end);
  for (const Processor& p : processors_) sum += p.computing.sum(begin, end) - p.collapsed.sum(begin, end);
  return sum;
}

double Meter::joules(std::size_t processor, Picoseconds begin, Picoseconds end) const {
  const Processor& p = processors_[processor];
  return p.drawn.sum(begin, end) + p.computing.sum(begin, end) - p.collapsed.sum(begin, end);
}

double Meter::busy_seconds(std::size_t processor, Picoseconds begin, Picoseconds end) const {
  return processors_[processor].busy.seconds(begin, end);
}

std::size_t Meter::points() const {
  std::size_t sum = io_only_.points() + joules_.points();
  for (const Processor& p : processors_) sum += p.busy.points() + p.drawn.points() + p.computing.points() + p.collapsed.points();
  return sum;
}

}  // namespace vitro::sim
