#include "hw_models/dram/flow.hpp"

#include <algorithm>
#include <cmath>

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

constexpr double kMargin = 1 + 1e-9;  // for rounding, where demands are compared with what there is

FlowEfficiency efficiency_of(const Params& params) {
  const ParamTable& table = params.table("efficiency");
  if (!table.values.empty()) return {FlowEfficiency::Entries(table.values.begin(), table.values.end()), table};
  return params.word("part") == "none" ? FlowEfficiency() : derived_flow_efficiency(params.word("part"));
}

}  // namespace

std::vector<ParamSpec> FlowDram::params() { return {std::begin(kParams), std::end(kParams)}; }

FlowDram::FlowDram(const Site& site, const Params& params)
    : context_(site.context),
      efficiency_(efficiency_of(params)),
      label_{context_.device(site.name), kWake},
      track_(context_.track("memory", "dram")) {
  // Between a part and its agents lies the fabric; without a part the latency is that of both.
  const Picoseconds latency = params.time("latency");
  const auto least = [&](const DramRequest& request) {
    const std::optional<Picoseconds> own = params.word("part") == "none" ? std::nullopt : efficiency_.latency(request);
    return own ? dram_part(params.word("part")).fabric(latency) + *own : latency;
  };
  least_ = least({.chunk = 1});
  least_in_order_ = least({.chunk = 0});
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
  flow.limit = flow.remaining / to_seconds(std::max(request.pace, request.chunk == 0 ? least_in_order_ : least_));
  flow.limit = std::min(flow.limit, ports_[flow.port].cap);
  flow.reads = efficiency_.of_reads(request);
  flow.writes = efficiency_.of_writes(request);
  flow.slowest = 1 / std::min(flow.reads, flow.writes);
  flow.since = now;
  flow.finish = Picoseconds::max();
  flow.written = static_cast<double>(request.written) / flow.remaining;
  flow.done = done;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = flow;
  enter(slot);
  if (!completing_) reshare(now);
}

// Most ports are idle most of the time, and most changes concern one of them: only what changed is visited again.
void FlowDram::enter(std::uint32_t slot) {
  flows_.push_back(slot);
  std::size_t at = slots_[slot].port;
  bool was_busy = ports_[at].busy();
  ports_[at].flows.push_back(slot);
  for (; ports_[at].summed = ports_[at].shared = false, at != 0; at = ports_[at].parent) {
    Port& parent = ports_[ports_[at].parent];
    const bool parent_was_busy = parent.busy();
    if (!was_busy) parent.children.insert(std::upper_bound(parent.children.begin(), parent.children.end(), at), at);
    was_busy = parent_was_busy;
  }
}

void FlowDram::leave(std::uint32_t slot) {
  std::size_t at = slots_[slot].port;
  std::erase(ports_[at].flows, slot);
  free_.push_back(slot);
  for (; ports_[at].summed = ports_[at].shared = false, at != 0; at = ports_[at].parent) {
    if (!ports_[at].busy()) std::erase(ports_[ports_[at].parent].children, at);
  }
}

void FlowDram::settle(Flow& flow, Picoseconds now) {
  if (flow.rate > 0 && now > flow.since) {
    const double moved = now >= flow.finish ? flow.remaining : std::min(flow.remaining, flow.rate * to_seconds(now - flow.since));
    flow.remaining -= moved;
    totals_.bytes_written += moved * flow.written;
    totals_.bytes_read += moved * (1 - flow.written);
  }
  flow.since = now;
}

void FlowDram::settle_total(Picoseconds now) {
  moved_.add(total_since_, now, total_rate_ * to_seconds(now - total_since_));
  total_since_ = now;
}

void FlowDram::sum_demands(Port& port) {
  double demand = 0;
  bool content = true;
  for (const std::uint32_t flow : port.flows) demand += slots_[flow].limit;
  for (const std::size_t index : port.children) {
    Port& child = ports_[index];
    if (!child.summed) sum_demands(child);
    demand += child.claim.demand;
    content = content && child.content;
  }
  port.summed = true;
  port.wanted = demand;
  port.content = content && demand <= port.cap;
  port.claim.demand = std::min(port.cap, demand);
}

void FlowDram::share(Port& port, double budget) {
  port.shared = true;
  port.budget = budget;
  if (port.wanted <= budget) {  // everybody gets what he can take
    for (const std::uint32_t i : port.flows) slots_[i].claim.share = slots_[i].limit;
    for (const std::size_t child : port.children) ports_[child].claim.share = ports_[child].claim.demand;
  } else {
    const std::size_t first = scratch_.size();
    for (const std::uint32_t i : port.flows) {
      slots_[i].claim = {slots_[i].limit, 1, 0};
      scratch_.push_back(&slots_[i].claim);
    }
    for (const std::size_t child : port.children) scratch_.push_back(&ports_[child].claim);
    share_fairly(std::span(scratch_).subspan(first), budget);
    scratch_.resize(first);
  }
  for (const std::size_t index : port.children) {
    Port& child = ports_[index];
    const double its = std::min(child.cap, child.claim.share);
    if (!child.shared || child.budget != its) share(child, its);
  }
}

double FlowDram::sustained() {
  uses_.clear();
  const auto add = [this](std::uint32_t slot) {
    const Flow& flow = slots_[slot];
    uses_.push_back({flow.claim.share, flow.reads, flow.writes, flow.written, flow.port});
  };
  if (crowds_) {  // which looks at all uses of an agent together
    for (const Port& port : ports_) std::for_each(port.flows.begin(), port.flows.end(), add);
  } else {
    std::for_each(flows_.begin(), flows_.end(), add);
  }
  return std::min(ports_[0].cap, efficiency_.sustained(uses_, crowds_));
}

bool FlowDram::share_sustained() {
  Port& root = ports_[0];
  double budget = root.cap;
  if (!root.summed) sum_demands(root);
  // A total that more than covers all demands leaves the shares as they are.
  const double enough = root.claim.demand * kMargin;
  bool covered = !efficiency_.known() || flows_.empty();
  if (!covered) {
    double slowest = 1;
    for (const std::uint32_t flow : flows_) slowest = std::max(slowest, slots_[flow].slowest);
    covered = std::min(budget, efficiency_.sustained_at_least(slowest, crowds_)) > enough;
  }
  if (covered && root.content) return true;
  const auto share_all = [&] {
    if (!root.shared || root.budget != budget) share(root, budget);
  };
  share_all();
  for (int round = 0; round < kMixRounds && !covered; ++round) {
    const double total = sustained();
    if (total == budget || std::min(total, budget) > enough) break;
    budget = total;
    share_all();
  }
  return false;
}

void FlowDram::reshare(Picoseconds now) {
  const bool content = share_sustained();
  double total = 0;
  Picoseconds next = Picoseconds::max();
  for (const std::uint32_t slot : flows_) {
    Flow& flow = slots_[slot];
    const double share = content ? flow.limit : flow.claim.share;
    total += share;
    if (share != flow.rate) {  // else its finish stays exact
      settle(flow, now);
      flow.rate = share;
      // The margin keeps rounding in `limit` from moving an exact pace to the next picosecond.
      const double picoseconds = std::ceil(flow.remaining / flow.rate * 1e12 - 1e-3);
      flow.finish = now + Picoseconds(static_cast<std::int64_t>(picoseconds));
    }
    next = std::min(next, flow.finish);
  }
  if (total != total_rate_) {
    settle_total(now);
    total_rate_ = total;
    if (context_.tracing()) context_.counter(track_, total * 1e-9);
  }
  arm(next);
}

// One wake-up is enough: a later one re-arms when it fires, so no event is posted per change of rate.
void FlowDram::arm(Picoseconds next) {
  if (next >= armed_) return;
  armed_ = next;
  context_.at(next, label_, [this] { wake(); });
}

void FlowDram::wake() {
  const Picoseconds now = context_.now();
  if (now != armed_) return;  // overtaken by an earlier wake-up, which armed again
  armed_ = Picoseconds::max();
  finished_.clear();
  std::erase_if(flows_, [&](std::uint32_t slot) {
    Flow& flow = slots_[slot];
    if (flow.finish > now) return false;
    settle(flow, now);
    finished_.push_back(flow.done);
    leave(slot);
    return true;
  });
  if (finished_.empty()) {
    Picoseconds next = Picoseconds::max();
    for (const std::uint32_t flow : flows_) next = std::min(next, slots_[flow].finish);
    return arm(next);
  }
  completing_ = true;
  for (Callback& done : finished_) done();
  completing_ = false;
  reshare(now);
}

DramTotals FlowDram::totals() {
  for (const std::uint32_t flow : flows_) settle(slots_[flow], context_.now());
  return totals_;
}

double FlowDram::bytes_moved(Picoseconds begin, Picoseconds end) {
  settle_total(context_.now());
  return moved_.sum(begin, end);
}

double FlowDram::peak_rate(Picoseconds begin, Picoseconds end) {
  settle_total(context_.now());
  return moved_.peak_rate(begin, end);
}

}  // namespace vitro::hw
