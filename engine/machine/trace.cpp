#include "engine/machine/trace.hpp"

#include <fmt/format.h>

#include "engine/ops/kernel_call.hpp"

namespace vitro {

void TraceSink::kernel(TrackId track, Picoseconds begin, Picoseconds end, const KernelCall& call) {
  span(track, begin, end, to_string(call.op), describe(call));
}

void TraceSink::request(TrackId track, Picoseconds submitted, Picoseconds end, const TracedRequest& request) {
  span(track, submitted, end, request.write ? "write" : "read", fmt::format("{}+{}", request.offset, request.length));
}

}  // namespace vitro
