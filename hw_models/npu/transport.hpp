// How work reaches the NPU: three queues that exist in public code, and static graphs.
//   mailbox      one packet per operator in shared memory; the NPU polls with short sleeps (TTS-NPU 6)
//   batched      the same, up to `batch` operators per packet
//   remote_call  a FastRPC invocation per graph
#pragma once
#include "hw_models/compute.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

struct Transport {
  explicit Transport(const Params& params);

  DispatchCosts dispatch;   // a poll in the middle of a sleep, on average
  Picoseconds per_call{0};  // of each operator: its share of a packet
};

}  // namespace vitro::hw
