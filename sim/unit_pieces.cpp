// A call's price and effect, and a chain as one piece of work (`cpu.calls: together`): priced call by call, then one request to memory
// and one end for all of them.
#include <algorithm>

#include "sim/unit.hpp"

namespace vitro::sim {

hw::Work SimUnit::work_of(const KernelCall& call) {
  hw::Work work = work_.build(call);
  if (s_.reuse == nullptr) return work;
  const Bytes bytes = work.read_bytes + work.written_bytes;
  const ReuseTracker::Distance since = s_.reuse->begin(call, static_cast<std::size_t>(caps_.id), bytes);
  work.moved_here = since.here;
  work.moved_anywhere = since.anywhere;
  return work;
}

void SimUnit::execute(const KernelCall& call, Picoseconds begin, Picoseconds end) {
  if (s_.trace.enabled()) s_.trace.kernel(track_, begin, end, call);
  try {
    if (s_.check_operands) check_operands(call, jobs_.front().sums[call_], caps_.name);
    Outcome outcome = s_.function.execute(call);
    if (outcome.index() != 0) result_.outcomes.push_back(std::move(outcome));
  } catch (...) {
    result_.error = std::current_exception();
  }
}

// Where a policy sees results between the calls of its own core, these have to be there one by one.
bool SimUnit::takes_pieces() const {
  return s_.calls_together && !(s_.wakes.between_calls && &core_ == &s_.policy_core);
}

void SimUnit::begin_piece() {
  works_.clear();
  written_ = weights_ = moved_ = 0;
  for (const KernelCall& call : *jobs_.front().chain) {
    const hw::Work& work = works_.emplace_back(work_of(call));
    const Bytes weights = std::min(work.weight_bytes, work.read_bytes);
    written_ += work.written_bytes;
    weights_ += weights;
    moved_ += work.read_bytes - weights + work.written_bytes;
  }
  s_.meter.kernel_begins(core_.processor(), call_began_);
  if (s_.power != nullptr) s_.power->before_call(core_.processor());
  pieces_->submit_piece(works_, [this] { end_piece(); });
}

// The calls take shares of the time that the piece has taken, as they would have alone.
void SimUnit::end_piece() {
  const Chain& chain = *jobs_.front().chain;
  const Picoseconds now = s_.executor.device_now(), began = call_began_;
  note_piece();
  core_.end_trace();
  const std::span<const hw::PieceModel::Part> parts = pieces_->parts();
  const double stretched = to_seconds(now - began) / to_seconds(parts.back().end);
  Picoseconds from = began;
  for (call_ = 0; call_ < chain.size() && !result_.error; ++call_) {
    const Picoseconds to = call_ + 1 == chain.size() ? now : began + from_seconds(stretched * to_seconds(parts[call_].end));
    execute(chain[call_], from, to);
    from = to;
  }
  give_answers();
  end_job();
}

void SimUnit::note_piece() {
  if (s_.power == nullptr) return;
  const Chain& chain = *jobs_.front().chain;
  const Picoseconds now = s_.executor.device_now(), took = now - call_began_;
  const std::span<const hw::PieceModel::Part> parts = pieces_->parts();
  s_.power->dram_written(written_);
  s_.meter.computed(core_.processor(), call_began_, now, std::min(core_.model().computed(), took));
  const hw::PowerDraw& draw = s_.meter.draw(core_.processor());
  const double waits = draw.stalled - s_.power->leakage(core_.processor()), share = to_seconds(took) / to_seconds(parts.back().end);
  Picoseconds before{0};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const double computed = to_seconds(parts[i].computed), all = share * to_seconds(parts[i].end - before);
    s_.causes->drew(cause_of(chain[i]), now, waits * all + (draw.busy - draw.stalled) * std::min(computed, all));
    before = parts[i].end;
  }
  s_.causes->moved(now, weights_, moved_);
}

}  // namespace vitro::sim
