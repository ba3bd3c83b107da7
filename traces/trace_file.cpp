#include "traces/trace_file.hpp"

#include <fmt/format.h>

namespace vitro {

void TraceFile::set_open(bool open) {
  if (open && !enabled() && flows_) {
    const std::scoped_lock lock(flows_mutex_);
    flows_->forget_all();
  }
  open_.store(open, std::memory_order_relaxed);
}

void TraceFile::kernel(TrackId track, Picoseconds begin, Picoseconds end, const KernelCall& call) {
  std::vector<std::uint64_t> taken;
  if (flows_) {
    const std::scoped_lock lock(flows_mutex_);
    taken = flows_->taken(call);
  }
  add_span(track, begin, end, to_string(call.op), describe(call), {taken});
}

void TraceFile::request(TrackId track, Picoseconds submitted, Picoseconds end, const TracedRequest& request) {
  if (!flows_ || request.into == nullptr) return TraceSink::request(track, submitted, end, request);
  std::uint64_t flow = 0;
  {
    const std::scoped_lock lock(flows_mutex_);
    flow = flows_->arrived(request.into->id(), request.into_offset, request.length);
  }
  const TrackId steps = this->track("policy", "steps");
  add_span(track, submitted, end, "read", fmt::format("{}+{}", request.offset, request.length), {{&flow, 1}, steps});
}

}  // namespace vitro
