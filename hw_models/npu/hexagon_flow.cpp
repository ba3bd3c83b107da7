#include "hw_models/npu/hexagon_flow.hpp"

namespace vitro::hw {

// The DMA engine moves whole groups, in and out by turns: memory sees long runs of reads and of writes, not a mixture.
void FlowHexagon::start(const TilePlan& plan) {
  const Picoseconds pace = from_seconds(times_.seconds(plan));
  const Bytes read = plan.read(), written = plan.written();
  if (read == 0 || written == 0) return ports_.move(plan.path, read, written, pace, [this] { end(); });
  out_ = {plan.path, written, from_seconds(to_seconds(pace) * static_cast<double>(written) / static_cast<double>(read + written))};
  ports_.move(plan.path, read, 0, pace - out_.pace, [this] { ports_.move(out_.path, 0, out_.bytes, out_.pace, [this] { end(); }); });
}

}  // namespace vitro::hw
