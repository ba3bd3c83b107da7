#include "hw_models/npu/transport.hpp"

namespace vitro::hw {

Transport::Transport(const Params& params) {
  const std::string& kind = params.word("transport");
  if (kind == "remote_call") {
    dispatch.wake_up = params.time("remote_call");
    dispatch.hand_back = params.time("remote_return");
  } else {
    const Picoseconds message = params.time("message");
    dispatch.wake_up = dispatch.hand_back = message + params.time("poll") / 2;
    per_call = kind == "batched" ? from_seconds(to_seconds(message) / params.positive("batch")) : message;
  }
  dispatch.build = params.time("build");
  dispatch.load = params.time("load");
  dispatch.switch_graph = params.time("switch_graph");
  dispatch.session_limit = params.bytes("session_limit");
  dispatch.static_graphs = true;
}

}  // namespace vitro::hw
