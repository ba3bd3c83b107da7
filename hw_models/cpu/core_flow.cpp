#include "hw_models/cpu/core_flow.hpp"

#include <algorithm>
#include <utility>

namespace vitro::hw {
namespace {

// Keys of one cluster; `cpu.bandwidth` and the policy's prices belong to the whole CPU and are read by the SoC.
constexpr ParamSpec kParams[] = {
    {"clock", Dimension::frequency, "", ""},
    {"core_bandwidth", Dimension::bandwidth, "", ""},
    {"cluster_bandwidth", Dimension::bandwidth, "", ""},
    {"cache", Dimension::bytes, "0 KiB", "none: every byte of a call crosses the DRAM bus"},
    {"wake_up", Dimension::time, "5 us", "futex wake-up of a sleeping thread on a Linux phone, order of magnitude"},
    {"spin", Dimension::time, "0 us", "a worker sleeps as soon as it has nothing to do"},
    {"hand_back", Dimension::time, "1 us", "a completion seen by the thread that waits for it, order of magnitude"},
    {"call_overhead", Dimension::time, "200 ns", "argument set-up and loop prologue of one kernel call"},
};

enum Kind : std::uint16_t { kStart, kEnd };

}  // namespace

std::vector<ParamSpec> FlowCore::params() {
  std::vector<ParamSpec> all{std::begin(kParams), std::end(kParams)};
  all.insert(all.end(), CoreCosts::params().begin(), CoreCosts::params().end());
  return all;
}

std::vector<std::string> FlowCore::tables() {
  std::vector<std::string> all = CoreCosts::tables();
  all.push_back("miss_time");
  return all;
}

FlowCore::FlowCore(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      port_(site.port),
      most_(params.bandwidth("core_bandwidth")),
      device_(context_.device(site.name)),
      clock_(params.frequency("clock")),
      full_clock_(clock_.value),
      cache_(params.bytes("cache")),
      call_overhead_(params.time("call_overhead")),
      prices_(params),
      reuse_(params.table("miss_time")) {
  dispatch_.wake_up = params.time("wake_up");
  dispatch_.spin = params.time("spin");
  dispatch_.hand_back = params.time("hand_back");
}

KernelCost FlowCore::kernel(std::string_view variant, std::string_view format) {
  const KernelCost price = prices_.find(variant, format);
  reuse_.name(price.id, variant, format);
  return price;
}

FlowCore::Price FlowCore::price(const Work& work) const {
  VITRO_CHECK(work.recent_read_bytes <= work.read_bytes && work.recent_written_bytes <= work.written_bytes, "more recent bytes than bytes");
  const bool fits = work.recent_read_bytes + work.recent_written_bytes <= cache_;
  Price price;
  price.read = work.read_bytes - (fits ? work.recent_read_bytes : 0);
  price.written = work.written_bytes - (fits ? work.recent_written_bytes : 0);
  double pace = prices_.cycles(work) / clock_.value;
  price.computed = from_seconds(pace);
  if (const std::optional<ReuseCurve::Cost> again = reuse_.cost(work)) {
    pace += again->seconds;
    price.read -= std::min(price.read, static_cast<Bytes>((1 - again->dram_share) * static_cast<double>(work.reused_bytes)));
  }
  price.pace = from_seconds(pace);
  return price;
}

void FlowCore::submit(const Work& work, Callback done) {
  VITRO_CHECK(!busy_, "a core runs one call at a time");
  const Price price = this->price(work);
  done_ = done;
  computed_ = call_overhead_ + price.computed;
  traffic_ = {port_, price.read + price.written, price.written, price.pace};
  start();
}

Picoseconds FlowCore::add_to_piece(const Work& call) {
  VITRO_CHECK(!busy_, "a core runs one piece at a time");
  if (std::exchange(piece_submitted_, false)) {
    parts_.clear();
    computed_ = Picoseconds(0);
    traffic_ = {.port = port_};
  }
  const Price price = this->price(call);
  const Bytes moved = price.read + price.written;
  const Picoseconds begin = parts_.empty() ? Picoseconds(0) : parts_.back().end;
  const Picoseconds end = begin + call_overhead_ + (moved > 0 ? std::max(price.pace, transfer_time(moved, most_)) : price.pace);
  parts_.push_back({end, call_overhead_ + price.computed});
  computed_ += call_overhead_ + price.computed;
  traffic_.length += moved;
  traffic_.written += price.written;
  traffic_.pace = end - call_overhead_;
  return end;
}

void FlowCore::submit_piece(Callback done) {
  VITRO_CHECK(!piece_submitted_, "an empty piece was submitted");
  piece_submitted_ = true;
  done_ = done;
  start();
}

void FlowCore::start() {
  busy_ = true;
  stolen_ = Picoseconds(0);
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
  registry.add(Entry<ComputeModel>{"core.flow", "CPU core: the longer of arithmetic and memory traffic, plus a cost per call",
                                   FlowCore::params(), FlowCore::tables(),
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowCore>(site, params); }});
}

}  // namespace vitro::hw
