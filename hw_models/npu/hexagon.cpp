#include "hw_models/npu/hexagon.hpp"

#include <algorithm>
#include <utility>

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kStart = 10 };

}  // namespace

MemoryPorts::MemoryPorts(const Site& site, const HexagonParameters& parts)
    : dram_(*site.dram),
      dma_(dram_.add_port({site.name + ".dma", parts.dma_bandwidth, site.port, 1})),
      l2_(dram_.add_port({site.name + ".l2", parts.l2_bandwidth, site.port, 1})) {}

void MemoryPorts::move(Path path, Bytes read, Bytes written, Picoseconds pace, Callback done) {
  DramRequest request;
  request.port = path == Path::dma ? dma_ : l2_;
  request.length = read + written;
  request.written = written;
  request.pace = pace;
  dram_.submit(request, done);
}

Hexagon::Hexagon(const Site& site, const Params& params)
    : context_(site.context),
      parts_(params),
      planner_(parts_),
      ports_(site, parts_),
      device_(context_.device(site.name)),
      full_clock_(parts_.clock),
      full_hmx_clock_(parts_.hmx_clock),
      transport_(params),
      kernels_(params.table("kernels"), parts_, params.table("more_kernels")),
      call_overhead_(transport_.per_call + from_seconds(parts_.call_cycles / parts_.clock)) {}

TilePlan Hexagon::plan(const Work& work) const {
  Kernel kernel = kernels_[work.kernel];
  // Who makes tables of floats rounds them first.
  if (work.rounds_activations) {
    const Kernel& rounding = kernels_[work.rounding];
    kernel.packets_per_activation += std::max(rounding.packets_per_element, rounding.gathers_per_element * parts_.gather_packets);
  }
  return planner_.plan(work, kernel, work.has_own_softmax ? &kernels_[work.softmax] : nullptr,
                       work.in_blocks ? &kernels_[work.quotient] : nullptr);
}

void Hexagon::submit(const Work& work, Callback done) {
  VITRO_CHECK(!busy_, "the NPU runs one call at a time");
  plan_ = plan(work);
  busy_ = true;
  done_ = done;
  if (call_overhead_.count() == 0) return start(plan_);
  context_.at(context_.now() + call_overhead_, {device_, kStart}, [this] { start(plan_); });
}

Picoseconds Hexagon::computed() const {
  VITRO_CHECK(plan_.pass.groups > 0, "no call has ended");
  return call_overhead_ + from_seconds(times_.seconds(plan_.without_memory()));
}

// Everything inside the unit goes slower; memory does not.
void Hexagon::set_clock_scale(double share) {
  parts_.clock = full_clock_ * share;
  parts_.hmx_clock = full_hmx_clock_ * share;
  times_.forget();
}

void Hexagon::end() {
  busy_ = false;
  std::exchange(done_, Callback())();
}

}  // namespace vitro::hw
