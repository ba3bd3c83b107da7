#include "hw_models/cpu/core_flow.hpp"

namespace vitro::hw {
namespace {

// Keys of one cluster; `cpu.bandwidth` and the policy's prices belong to the whole CPU and are read by the SoC.
constexpr ParamSpec kParams[] = {
    {"clock", Dimension::frequency, "", ""},
    {"core_bandwidth", Dimension::bandwidth, "", ""},
    {"cluster_bandwidth", Dimension::bandwidth, "", ""},
    {"wake_up", Dimension::time, "5 us", "futex wake-up of a sleeping thread on a Linux phone, order of magnitude"},
    {"hand_back", Dimension::time, "1 us", "a completion seen by the thread that waits for it, order of magnitude"},
    {"call_overhead", Dimension::time, "200 ns", "argument set-up and loop prologue of one kernel call"},
    {"macs_per_cycle_otherwise", Dimension::none, "4", "one 128-bit FMA per cycle on float32, for kernels without a measured rate"},
    {"elementwise_per_cycle", Dimension::none, "4", "one 128-bit float32 operation per cycle"},
    {"conversions_per_cycle", Dimension::none, "8", "one 128-bit half or byte conversion per cycle"},
    {"lookups_per_cycle", Dimension::none, "16", "one 128-bit TBL per cycle"},
    {"cycles_per_row_run", Dimension::none, "40", "a prefetcher that starts again at each run of weight bytes"},
};

enum Kind : std::uint16_t { kStart, kEnd };

}  // namespace

std::vector<ParamSpec> FlowCore::params() { return {std::begin(kParams), std::end(kParams)}; }

FlowCore::FlowCore(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      port_(site.port),
      device_(context_.device(site.name)),
      clock_(params.frequency("clock")),
      call_overhead_(params.time("call_overhead")),
      rates_(params.table("macs_per_cycle"), params.positive("macs_per_cycle_otherwise")),
      elementwise_per_cycle_(params.positive("elementwise_per_cycle")),
      conversions_per_cycle_(params.positive("conversions_per_cycle")),
      lookups_per_cycle_(params.positive("lookups_per_cycle")),
      cycles_per_run_(params.number("cycles_per_row_run")) {
  hand_off_.wake_up = params.time("wake_up");
  hand_off_.hand_back = params.time("hand_back");
}

void FlowCore::submit(const Work& work, Callback done) {
  VITRO_CHECK(!busy_, "a core runs one call at a time");
  busy_ = true;
  stolen_ = Picoseconds(0);
  done_ = done;
  const double cycles = rates_.time(static_cast<double>(work.macs), work.kernel) +
                        static_cast<double>(work.elementwise) / elementwise_per_cycle_ +
                        static_cast<double>(work.conversions) / conversions_per_cycle_ +
                        static_cast<double>(work.lookups) / lookups_per_cycle_ + work.row_runs * cycles_per_run_;
  traffic_ = {port_, work.read_bytes + work.written_bytes, work.written_bytes, from_seconds(cycles / clock_.value)};
  if (traffic_.length == 0) {
    context_.at(context_.now() + call_overhead_ + traffic_.pace, {device_, kEnd}, [this] { end_call(); });
  } else if (call_overhead_.count() == 0) {
    start_traffic();
  } else {
    context_.at(context_.now() + call_overhead_, {device_, kStart}, [this] { start_traffic(); });
  }
}

void FlowCore::start_traffic() {
  dram_.submit(traffic_, [this] { end_call(); });
}

void FlowCore::end_call() {
  if (stolen_.count() > 0) {
    context_.at(context_.now() + std::exchange(stolen_, Picoseconds(0)), {device_, kEnd}, [this] { end_call(); });
    return;
  }
  busy_ = false;
  done_();
}

void FlowCore::preempt(Picoseconds duration) {
  if (busy_) stolen_ += duration;
}

void register_cpu(Registry& registry) {
  registry.add(Entry<ComputeModel>{"core.flow",
                                   "CPU core: the longer of arithmetic and memory traffic, plus a cost per call",
                                   FlowCore::params(),
                                   {"macs_per_cycle"},
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowCore>(site, params); }});
}

}  // namespace vitro::hw
