// A call's price and effect, and a chain as one piece of work (`cpu.calls: together`): priced call by call, then one request to memory
// and one end for all of them.
#include <algorithm>

#include "sim/unit.hpp"

namespace vitro::sim {
namespace {

// A piece is complete when it takes so long: clocks change between pieces, and a peak of power is a mean over 1 ms.
constexpr Picoseconds kLongPiece = std::chrono::microseconds(250);

}  // namespace

const hw::Work& SimUnit::work_of(const KernelCall& call) {
  const hw::Work& plain = work_.build(call);
  if (s_.reuse == nullptr) return plain;
  hw::Work& work = reusing_ = plain;
  const Bytes bytes = work.read_bytes + work.written_bytes;
  const ReuseTracker::Distance since = s_.reuse->begin(call, static_cast<std::size_t>(caps_.id), bytes);
  work.moved_here = since.here;
  work.moved_anywhere = since.anywhere;
  return work;
}

void SimUnit::execute(const KernelCall& call, Picoseconds begin, Picoseconds end) {
  if (s_.trace.enabled()) s_.trace.kernel(track_, begin, end, call);
  s_.accounting.executes(static_cast<std::uint32_t>(caps_.id), call_);
  try {
    if (s_.check_operands) check_operands(call, jobs_.front().sums[call_], caps_.name);
    Outcome outcome = s_.function.execute(call);
    if (outcome.index() != 0) result_.outcomes.push_back(std::move(outcome));
  } catch (...) {
    result_.error = std::current_exception();
    s_.accounting.fails();
  }
}

// Where a policy sees results between the calls of its own core, these have to be there one by one.
bool SimUnit::takes_pieces() const {
  return s_.calls_together && !(s_.wakes.between_calls && &core_ == &s_.policy_core);
}

void SimUnit::begin_piece() {
  const Chain& chain = *jobs_.front().chain;
  begin_on_model();
  Picoseconds length{0};
  for (std::size_t call = call_; call < chain.size() && length < kLongPiece; ++call) {
    const hw::Work& work = work_of(chain[call]);
    note_bytes(work);
    length = pieces_->add_to_piece(work);
  }
  pieces_->submit_piece([this] { end_piece(); });
}

double SimUnit::stretched_by(Picoseconds took) const {
  const Picoseconds alone = pieces_->parts().back().end;
  return alone.count() > 0 ? to_seconds(took) / to_seconds(alone) : 1;
}

// The calls take shares of the time that the piece has taken, as they would have alone.
void SimUnit::end_piece() {
  const Chain& chain = *jobs_.front().chain;
  const Picoseconds now = s_.executor.device_now(), began = call_began_;
  note_piece();
  core_.end_trace();
  const std::span<const hw::PieceModel::Part> parts = pieces_->parts();
  const double stretched = stretched_by(now - began);
  Picoseconds from = began;
  for (const hw::PieceModel::Part& part : parts) {
    const Picoseconds to = &part == &parts.back() ? now : began + from_seconds(stretched * to_seconds(part.end));
    execute(chain[call_], from, to);
    if (result_.error) return end_job();
    from = to;
    ++call_;
  }
  continue_chain();
}

}  // namespace vitro::sim
