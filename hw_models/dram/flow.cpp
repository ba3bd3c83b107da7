#include "hw_models/dram/flow.hpp"

#include <algorithm>
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

constexpr double kMargin = 1 + 1e-9;  // for rounding, where demands are compared with what there is

// Requires: within the range of times.
Picoseconds rounded_up(double picoseconds) {
  const auto whole = static_cast<std::int64_t>(picoseconds);
  return Picoseconds(whole + (static_cast<double>(whole) < picoseconds));
}

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
  ports_.emplace_back().cap = params.bandwidth("bandwidth").value;
  crowds_ = efficiency_.known() && ports_[0].cap >= efficiency_.sequential().value;
}

PortId FlowDram::add_port(const PortSpec& spec) {
  VITRO_CHECK(spec.cap.value > 0 && spec.weight > 0, "a DRAM port needs a bandwidth and a weight");
  Port& parent = ports_[static_cast<std::size_t>(spec.parent)];
  Port& port = ports_.emplace_back();
  port.cap = spec.cap.value;
  port.parent = &parent;
  port.number = ports_.size() - 1;
  port.claim.weight = spec.weight;
  return PortId(port.number);
}

void FlowDram::submit(const DramRequest& request, Callback done) {
  VITRO_CHECK(request.written <= request.length, "a request can not write more than it moves");
  const Picoseconds now = context_.now();
  if (request.length == 0) return context_.at(now + request.pace, label_, done);
  if (free_.empty()) free_.push_back(&slots_.emplace_back());
  Flow& flow = *free_.back();
  free_.pop_back();
  flow.port = &ports_[static_cast<std::size_t>(request.port)];
  flow.length = flow.remaining = static_cast<double>(request.length);
  // No request ends before the latency of its first byte; within a longer one, later accesses hide behind earlier ones.
  const double limit = flow.remaining / to_seconds(std::max(request.pace, request.chunk == 0 ? least_in_order_ : least_));
  flow.claim.demand = std::min(limit, flow.port->cap);
  flow.rate = 0;
  flow.since = now;
  flow.finish = Picoseconds::max();
  flow.done = done;
  flow.written = static_cast<double>(request.written) / flow.length;
  flows_.push_back(&flow);
  const FlowEfficiency::Use& use =
      uses_.emplace_back(0, efficiency_.of_reads(request), efficiency_.of_writes(request), flow.written, flow.port->number);
  kinds_.push_back(cache_.number({flow.port->number, flow.claim.demand, use.written, use.own, use.read_wait, use.write_wait}));
  if (use.slowest > slowest_) {
    slowest_ = use.slowest;
    always_ = std::min(ports_[0].cap, efficiency_.sustained_at_least(slowest_, 1, crowds_));
  }
  enter(flow);
  if (!completing_) reshare(now);
}

// Most ports are idle most of the time, and most changes concern one of them: only what changed is visited again.
void FlowDram::enter(Flow& flow) {
  if (!flow.port->listed) list(*flow.port);
  flow.port->flows.push_back(&flow);
  note_change(*flow.port);
}

void FlowDram::leave(Flow& flow) {
  std::vector<Flow*>& siblings = flow.port->flows;
  if (siblings.back() == &flow) {  // mostly it is alone
    siblings.pop_back();
  } else {
    std::erase(siblings, &flow);
  }
  note_change(*flow.port);
  free_.push_back(&flow);
}

void FlowDram::list(Port& port) {
  port.listed = true;
  if (port.parent == nullptr) return;
  std::vector<Port*>& siblings = port.parent->children;
  siblings.insert(std::ranges::upper_bound(siblings, port.number, {}, &Port::number), &port);
  if (!port.parent->listed) list(*port.parent);
}

void FlowDram::note_change(Port& port) {
  if (!std::exchange(port.changed, true)) changed_.push_back(&port);
  for (Port* above = &port; above != nullptr; above = above->parent) above->shared = false;
}

void FlowDram::settle(Flow& flow, Picoseconds now) {
  if (flow.rate > 0 && now > flow.since) {
    flow.remaining -= now >= flow.finish ? flow.remaining : std::min(flow.remaining, flow.rate * to_seconds(now - flow.since));
  }
  flow.since = now;
}

void FlowDram::settle_total(Picoseconds now) {
  moved_.add(total_since_, now, total_rate_ * to_seconds(now - total_since_));
  total_since_ = now;
}

void FlowDram::sum_demands(Port* port) {
  for (; port != nullptr; port = port->parent) {
    double wanted = 0;
    bool content = true;
    for (const Flow* flow : port->flows) wanted += flow->claim.demand;
    for (const Port* child : port->children) {
      wanted += child->claim.demand;
      content = content && child->content;
    }
    content = content && wanted <= port->cap;
    port->sorted = false;
    port->wanted = wanted;
    const double demand = std::min(port->cap, wanted);
    if (demand == port->claim.demand && content == port->content) return;  // as often where one request follows another
    port->claim.demand = demand;
    port->content = content;
  }
}

void FlowDram::share(Port& port, double budget) {
  port.shared = true;
  port.budget = budget;
  if (port.wanted <= budget) {  // everybody gets what he can take
    for (Flow* flow : port.flows) flow->claim.share = flow->claim.demand;
    for (Port* child : port.children) child->claim.share = child->claim.demand;
  } else {
    if (!port.sorted) sort(port);
    share_sorted(port.order, port.weights, budget);
  }
  for (Port* child : port.children) {
    if (child->claim.demand == 0) continue;
    const double its = std::min(child->cap, child->claim.share);
    if (child->children.empty() && child->flows.size() == 1) {
      child->flows[0]->claim.share = std::min(child->flows[0]->claim.demand, its);
    } else if (!child->shared || child->budget != its) {
      share(*child, its);
    }
  }
}

void FlowDram::sort(Port& port) {
  port.order.clear();
  for (Flow* flow : port.flows) port.order.push_back(&flow->claim);
  for (Port* child : port.children) {
    if (child->claim.demand > 0) port.order.push_back(&child->claim);
  }
  port.weights = sort_claims(port.order);
  port.sorted = true;
}

double FlowDram::sustained() {
  for (std::size_t i = 0; i < flows_.size(); ++i) uses_[i].rate = flows_[i]->claim.share;
  if (!crowds_) return std::min(ports_[0].cap, efficiency_.sustained(uses_, false));
  by_port_.clear();  // all uses of an agent are looked at together
  for (const FlowEfficiency::Use& use : uses_) {
    by_port_.insert(std::ranges::upper_bound(by_port_, use.agent, {}, &FlowEfficiency::Use::agent), use);
  }
  return std::min(ports_[0].cap, efficiency_.sustained(by_port_));
}

// When everybody gets what he can take, the mix is known: mostly a bound says that memory sustains it.
bool FlowDram::covers_demands() const {
  if (!efficiency_.known() || ports_[0].wanted * kMargin < always_) return true;
  double slowest = 1, bytes = 0, written = 0;
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const double demand = flows_[i]->claim.demand;
    slowest = std::max(slowest, uses_[i].slowest);
    bytes += demand;
    written += demand * uses_[i].written;
  }
  return std::min(ports_[0].cap, efficiency_.sustained_at_least(slowest, written / bytes, crowds_)) > bytes * kMargin;
}

bool FlowDram::share_sustained() {
  for (Port* port : changed_) {
    port->changed = false;
    sum_demands(port);
  }
  changed_.clear();
  Port& root = ports_[0];
  if (root.content && covers_demands()) return true;
  double budget = root.cap;
  const auto share_all = [&] {
    if (!root.shared || root.budget != budget) share(root, budget);
  };
  share_all();
  if (!efficiency_.known()) return false;
  // A total that more than covers all demands leaves the shares as they are.
  const double enough = root.claim.demand * kMargin;
  for (int round = 0; round < kMixRounds; ++round) {
    const double total = sustained();
    if (total == budget || std::min(total, budget) > enough) break;
    budget = total;
    share_all();
  }
  return false;
}

void FlowDram::work_out() {
  const bool content = share_sustained();
  rates_.resize(flows_.size());
  double* rate = rates_.data();
  for (const Flow* flow : flows_) *rate++ = content ? flow->claim.demand : flow->claim.share;
}

const double* FlowDram::rates() {
  if (const double* const known = cache_.find(kinds_)) return known;
  work_out();
  cache_.keep(kinds_, rates_);  // only now: a mix without its rates must not be found
  return rates_.data();
}

void FlowDram::reshare(Picoseconds now) {
  const double* rate = rates();
  double total = 0;
  Picoseconds next = Picoseconds::max();
  for (Flow* flow : flows_) {
    const double share = *rate++;
    total += share;
    if (share != flow->rate) {  // else its finish stays exact
      settle(*flow, now);
      flow->rate = share;
      // The margin keeps rounding in its limit from moving an exact pace to the next picosecond.
      flow->finish = now + rounded_up(flow->remaining / flow->rate * 1e12 - 1e-3);
    }
    next = std::min(next, flow->finish);
  }
  if (total != total_rate_) set_rate(total);
  arm(next);
}

void FlowDram::set_rate(double bytes_per_second) {
  settle_total(context_.now());
  total_rate_ = bytes_per_second;
  if (listener_ != nullptr) listener_->rate(bytes_per_second);
  if (context_.tracing()) context_.counter(track_, bytes_per_second * 1e-9);
}

void FlowDram::count(double read, double written) {
  totals_.bytes_written += written;
  totals_.bytes_read += read;
  if (listener_ != nullptr) listener_->moved(read, written);
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
  std::size_t kept = 0;
  Picoseconds next = Picoseconds::max();
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = *flows_[i];
    if (flow.finish <= now) {
      count(flow.length * (1 - flow.written), flow.length * flow.written);
      finished_.push_back(flow.done);
      leave(flow);
      continue;
    }
    next = std::min(next, flow.finish);
    if (i > kept) {
      flows_[kept] = flows_[i];
      kinds_[kept] = kinds_[i];
      uses_[kept] = uses_[i];
    }
    ++kept;
  }
  if (finished_.empty()) return arm(next);
  flows_.resize(kept);
  kinds_.resize(kept);
  uses_.resize(kept);
  completing_ = true;
  for (Callback& done : finished_) done();
  completing_ = false;
  reshare(now);
}

DramTotals FlowDram::totals() {
  DramTotals totals = totals_;
  for (Flow* flow : flows_) {
    settle(*flow, context_.now());
    const double moved = flow->length - flow->remaining;
    totals.bytes_written += moved * flow->written;
    totals.bytes_read += moved * (1 - flow->written);
  }
  return totals;
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
