// What a unit tells the power model of a call, or of a chain as one piece of work.
#include <algorithm>

#include "sim/unit.hpp"

namespace vitro::sim {

Picoseconds SimUnit::note_end() {
  const Picoseconds now = s_.executor.device_now(), computed = std::min(core_.model().computed(), now - call_began_);
  s_.accounting.call_ends({static_cast<std::uint32_t>(core_.processor()), call_began_, computed, written_, weights_, moved_});
  return computed;
}

void SimUnit::note_call(Cause cause) {
  if (s_.power == nullptr) return;
  const double computed = to_seconds(note_end());
  s_.accounting.draws(core_.processor(), cause, to_seconds(s_.executor.device_now() - call_began_), computed);
}

void SimUnit::note_piece() {
  if (s_.power == nullptr) return;
  note_end();
  const std::span<const hw::PieceModel::Part> parts = pieces_->parts();
  const double stretched = stretched_by(s_.executor.device_now() - call_began_);
  Picoseconds before{0};
  const KernelCall* call = &(*jobs_.front().chain)[call_];
  for (const hw::PieceModel::Part& part : parts) {
    const double all = stretched * to_seconds(part.end - before);
    s_.accounting.draws(core_.processor(), cause_of(*call++), all, std::min(to_seconds(part.computed), all));
    before = part.end;
  }
}

}  // namespace vitro::sim
