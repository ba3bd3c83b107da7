#include "hw_models/dram/flow.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"bandwidth", Dimension::bandwidth, "", ""},
    {"latency", Dimension::time, "100 ns", "typical loaded LPDDR5 read latency; the least that a request takes"},
    {"capacity", Dimension::bytes, "", ""},
    {"available", Dimension::bytes, "", ""},
    // Without a part the bandwidth is what it is: a measured one already contains what its agents cost one another.
    {"part", Dimension::none, "none", "", "none|lpddr5_6400|lpddr5x_8533|lpddr5x_9600|m2_lpddr5_6400"},
};

enum Kind : std::uint16_t { kWake };

// Shares decide the mix, the mix decides the total: after these rounds the total moves by less than a per mille.
constexpr int kMixRounds = 4;

FlowEfficiency efficiency_of(const Params& params) {
  const ParamTable& table = params.table("efficiency");
  if (!table.values.empty()) return {FlowEfficiency::Entries(table.values.begin(), table.values.end()), table.name};
  return params.word("part") == "none" ? FlowEfficiency() : derived_flow_efficiency(params.word("part"));
}

}  // namespace

std::vector<ParamSpec> FlowDram::params() { return {std::begin(kParams), std::end(kParams)}; }

FlowDram::FlowDram(const Site& site, const Params& params)
    : context_(site.context),
      efficiency_(efficiency_of(params)),
      latency_(params.time("latency")),
      label_{context_.device(site.name), kWake},
      track_(context_.track("memory", "dram")) {
  if (params.word("part") != "none") fabric_ = dram_part(params.word("part")).fabric(latency_);
  Port root;
  root.cap = params.bandwidth("bandwidth").value;
  crowds_ = efficiency_.known() && root.cap >= efficiency_.sequential().value;
  ports_.push_back(std::move(root));
}

PortId FlowDram::add_port(const PortSpec& spec) {
  VITRO_CHECK(spec.cap.value > 0 && spec.weight > 0, "a DRAM port needs a bandwidth and a weight");
  Port port;
  port.cap = spec.cap.value;
  port.parent = static_cast<std::size_t>(spec.parent);
  port.claim.weight = spec.weight;
  ports_.push_back(std::move(port));
  return PortId(ports_.size() - 1);
}

void FlowDram::submit(const DramRequest& request, Callback done) {
  VITRO_CHECK(request.written <= request.length, "a request can not write more than it moves");
  const Picoseconds now = context_.now();
  if (request.length == 0) return context_.at(now + request.pace, label_, done);
  Flow flow;
  flow.port = static_cast<std::size_t>(request.port);
  flow.remaining = static_cast<double>(request.length);
  // No request ends before the latency of its first byte; within a longer one, later accesses hide behind earlier ones.
  const std::optional<Picoseconds> own = fabric_ ? efficiency_.latency(request) : std::nullopt;
  flow.limit = flow.remaining / to_seconds(std::max(request.pace, own ? *fabric_ + *own : latency_));
  flow.limit = std::min(flow.limit, ports_[flow.port].cap);
  flow.reads = efficiency_.of_reads(request);
  flow.writes = efficiency_.of_writes(request);
  flow.since = now;
  flow.finish = Picoseconds::max();
  flow.written = static_cast<double>(request.written) / flow.remaining;
  flow.done = done;
  flows_.push_back(flow);
  if (!completing_) reshare();
}

void FlowDram::settle(Flow& flow) {
  const Picoseconds now = context_.now();
  if (flow.rate > 0 && now > flow.since) {
    const double moved = now >= flow.finish ? flow.remaining : std::min(flow.remaining, flow.rate * to_seconds(now - flow.since));
    flow.remaining -= moved;
    totals_.bytes_written += moved * flow.written;
    totals_.bytes_read += moved * (1 - flow.written);
  }
  flow.since = now;
}

void FlowDram::settle_total() {
  const Picoseconds now = context_.now();
  moved_.add(total_since_, now, total_rate_ * to_seconds(now - total_since_));
  total_since_ = now;
}

double FlowDram::demand_of(std::size_t index) {
  Port& port = ports_[index];
  double demand = 0;
  for (const std::size_t flow : port.flows) demand += flows_[flow].limit;
  for (const std::size_t child : port.children) demand += demand_of(child);
  return port.claim.demand = std::min(port.cap, demand);
}

void FlowDram::share(std::size_t index, double budget) {
  Port& port = ports_[index];
  const std::size_t first = scratch_.size();
  for (const std::size_t i : port.flows) {
    flows_[i].claim = {flows_[i].limit, 1, 0};
    scratch_.push_back(&flows_[i].claim);
  }
  for (const std::size_t child : port.children) scratch_.push_back(&ports_[child].claim);
  share_fairly(std::span(scratch_).subspan(first), budget);
  scratch_.resize(first);
  for (const std::size_t child : port.children) share(child, std::min(ports_[child].cap, ports_[child].claim.share));
}

double FlowDram::sustained() {
  uses_.clear();
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    for (const std::size_t i : ports_[port].flows) {
      const Flow& flow = flows_[i];
      uses_.push_back({flow.claim.share, flow.reads, flow.writes, flow.written, port});
    }
  }
  return std::min(ports_[0].cap, efficiency_.sustained(uses_, crowds_));
}

// Most ports are idle most of the time: only those with flows below them are visited.
void FlowDram::find_busy_ports() {
  for (Port& port : ports_) {
    port.flows.clear();
    port.children.clear();
    port.busy = false;
  }
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    ports_[flows_[i].port].flows.push_back(i);
    for (std::size_t at = flows_[i].port; !std::exchange(ports_[at].busy, true);) at = ports_[at].parent;
  }
  for (std::size_t i = 1; i < ports_.size(); ++i) {
    if (ports_[i].busy) ports_[ports_[i].parent].children.push_back(i);
  }
}

void FlowDram::share_sustained() {
  double budget = ports_[0].cap;
  share(0, budget);
  if (!efficiency_.known() || flows_.empty()) return;
  // A total that more than covers all demands leaves the shares as they are; the margin is for rounding.
  const double enough = ports_[0].claim.demand * (1 + 1e-9);
  for (int round = 0; round < kMixRounds; ++round) {
    const double total = sustained();
    if (total == budget || std::min(total, budget) > enough) return;
    share(0, budget = total);
  }
}

void FlowDram::reshare() {
  find_busy_ports();
  demand_of(0);
  share_sustained();

  double total = 0;
  for (Flow& flow : flows_) {
    total += flow.claim.share;
    if (flow.claim.share == flow.rate) continue;  // its finish stays exact
    settle(flow);
    flow.rate = flow.claim.share;
    // The margin keeps rounding in `limit` from moving an exact pace to the next picosecond.
    const double picoseconds = std::ceil(flow.remaining / flow.rate * 1e12 - 1e-3);
    flow.finish = context_.now() + Picoseconds(static_cast<std::int64_t>(picoseconds));
  }
  if (total != total_rate_) {
    settle_total();
    total_rate_ = total;
    if (context_.tracing()) context_.counter(track_, total * 1e-9);
  }
  arm();
}

// One wake-up is enough: a later one re-arms when it fires, so no event is posted per change of rate.
void FlowDram::arm() {
  Picoseconds next = Picoseconds::max();
  for (const Flow& flow : flows_) next = std::min(next, flow.finish);
  if (next >= armed_) return;
  armed_ = next;
  context_.at(next, label_, [this] { wake(); });
}

void FlowDram::wake() {
  const Picoseconds now = context_.now();
  if (now != armed_) return;  // overtaken by an earlier wake-up, which armed again
  armed_ = Picoseconds::max();
  const auto ended = [now](const Flow& flow) { return flow.finish <= now; };
  finished_.clear();
  for (Flow& flow : flows_) {
    if (!ended(flow)) continue;
    settle(flow);
    finished_.push_back(flow.done);
  }
  if (finished_.empty()) return arm();
  std::erase_if(flows_, ended);
  completing_ = true;
  for (Callback& done : finished_) done();
  completing_ = false;
  reshare();
}

DramTotals FlowDram::totals() {
  for (Flow& flow : flows_) settle(flow);
  return totals_;
}

double FlowDram::bytes_moved(Picoseconds begin, Picoseconds end) {
  settle_total();
  return moved_.sum(begin, end);
}

double FlowDram::peak_rate(Picoseconds begin, Picoseconds end) {
  settle_total();
  return moved_.peak_rate(begin, end);
}

}  // namespace vitro::hw
