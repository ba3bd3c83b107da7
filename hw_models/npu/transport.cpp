#include "hw_models/npu/transport.hpp"

namespace vitro::hw {

Transport::Transport(const Params& params) {
  const std::string& kind = params.word("transport");
  if (kind == "remote_call") {
    hand_off.wake_up = params.time("remote_call");
    hand_off.hand_back = params.time("remote_return");
  } else {
    const Picoseconds message = params.time("message");
    hand_off.wake_up = hand_off.hand_back = message + params.time("poll") / 2;
    per_call = kind == "batched" ? from_seconds(to_seconds(message) / params.positive("batch")) : message;
  }
  hand_off.build = params.time("build");
  hand_off.load = params.time("load");
  hand_off.switch_graph = params.time("switch_graph");
  hand_off.session_limit = params.bytes("session_limit");
  hand_off.static_graphs = true;
}

}  // namespace vitro::hw
