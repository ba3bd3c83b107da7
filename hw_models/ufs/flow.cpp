#include "hw_models/ufs/flow.hpp"

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"queue_depth", Dimension::none, "32", "UFS 3.1 and 4.0: 32 slots of one queue"},
    {"max_transfer", Dimension::bytes, "512 KiB", "one command of the usual driver limits"},
    {"issue_cycles", Dimension::none, "", ""},  // of the issuing core, per command: submission and completion
    {"issue_fixed", Dimension::time, "", ""},   // of the same, independent of its clock
    {"latency_sequential", Dimension::time, "", ""},
    {"latency_random", Dimension::time, "", ""},
    {"latency_write", Dimension::time, "20 us", "into the device's write buffer, order of magnitude"},
    {"command_overhead", Dimension::time, "1 us", "serial handling of one command in the device, order of magnitude"},
    {"issuer_switch", Dimension::time, "", ""},  // serial: the queue changes hands between cores
    {"map_cache_reach", Dimension::bytes, "", ""},
    {"map_cache_miss", Dimension::time, "", ""},
    {"link_bandwidth", Dimension::bandwidth, "", ""},
    {"write_bandwidth", Dimension::bandwidth, "", ""},
};

enum Kind : std::uint16_t { kServe, kTransfer };

}  // namespace

std::vector<ParamSpec> FlowUfs::params() { return {std::begin(kParams), std::end(kParams)}; }

FlowUfs::FlowUfs(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      port_(site.port),
      device_(context_.device(site.name)),
      track_(context_.track("storage", "flash")),
      limits_{params.bytes("max_transfer"), static_cast<std::uint32_t>(params.number("queue_depth"))},
      issue_cycles_(params.number("issue_cycles")),
      issue_fixed_(params.time("issue_fixed")),
      latency_sequential_(params.time("latency_sequential")),
      latency_random_(params.time("latency_random")),
      latency_write_(params.time("latency_write")),
      command_overhead_(params.time("command_overhead")),
      issuer_switch_(params.time("issuer_switch")),
      map_cache_miss_(params.time("map_cache_miss")),
      link_(params.bandwidth("link_bandwidth")),
      write_bandwidth_(params.bandwidth("write_bandwidth")),
      map_(params.bytes("map_cache_reach")) {
  if (limits_.queue_depth == 0) throw ConfigError(params.path() + ".queue_depth: must be 1 or more");
  if (limits_.max_transfer < kPageSize) throw ConfigError(params.path() + ".max_transfer: must be 4 KiB or more");
}

Picoseconds FlowUfs::issue_time(Hertz core_clock) const { return issue_fixed_ + from_seconds(issue_cycles_ / core_clock.value); }

void FlowUfs::submit(const IoRequest& request, Callback done) {
  VITRO_CHECK(request.length > 0 && request.length <= limits_.max_transfer, "a UFS command moves 1 to max_transfer bytes");
  Command command{request, done, {}};
  if (in_device_.size() < limits_.queue_depth) return admit(command);
  waiting_.push_back(command);
}

void FlowUfs::admit(Command command) {
  const IoRequest& request = command.request;
  command.ready = context_.now() + (request.write ? latency_write_ : request.sequential ? latency_sequential_ : latency_random_);
  in_device_.push_back(command);
  if (!serving_) serve();
}

void FlowUfs::serve() {
  serving_ = true;
  const Picoseconds begin = std::max(context_.now(), in_device_.front().ready);
  context_.at(begin, {device_, kServe}, [this] {
    service_began_ = context_.now();
    context_.at(service_began_ + overhead(in_device_.front().request), {device_, kTransfer}, [this] { transfer(); });
  });
}

Picoseconds FlowUfs::overhead(const IoRequest& request) {
  Picoseconds time = command_overhead_;
  if (last_issuer_ && *last_issuer_ != request.issuer) time += issuer_switch_;
  last_issuer_ = request.issuer;
  // A sequential stream has its next map page fetched ahead.
  if (map_.misses(request.address) && !request.sequential) time += map_cache_miss_;
  return time;
}

void FlowUfs::transfer() {
  const IoRequest& request = in_device_.front().request;
  const Picoseconds pace = transfer_time(request.length, request.write ? write_bandwidth_ : link_);
  dram_.submit({port_, request.length, !request.write, pace}, [this] { finish(); });
}

void FlowUfs::finish() {
  const Command command = in_device_.front();
  in_device_.pop_front();
  serving_ = false;
  const Picoseconds now = context_.now();
  moved_.add(service_began_, now, static_cast<double>(command.request.length));
  if (context_.tracing()) context_.span(track_, service_began_, now, command.request.write ? "write" : "read");
  if (!waiting_.empty()) {
    const Command next = waiting_.front();
    waiting_.pop_front();
    admit(next);
  }
  if (!serving_ && !in_device_.empty()) serve();
  Callback done = command.done;
  done();
}

void register_ufs(Registry& registry) {
  registry.add(Entry<StorageModel>{"ufs.flow",
                                   "UFS: issue cost on a core, overlapped latency, serial service, DMA through DRAM",
                                   FlowUfs::params(),
                                   {},
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowUfs>(site, params); }});
}

}  // namespace vitro::hw
