#include "hw_models/ufs/flow.hpp"

#include <algorithm>

#include "hw_models/ufs/parameters.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kDoorbell, kHandled, kMapPage, kMapped, kReady };

// A sensitivity run varies counts by fractions; the closed forms take what is whole of them.
std::uint32_t whole_part(const Params& params, std::string_view key) {
  const double value = params.number(key);
  if (value < 1 || value > 65536) throw ConfigError(params.path() + "." + std::string(key) + ": must be 1 or more");
  return static_cast<std::uint32_t>(value);
}

}  // namespace

FlowUfs::FlowUfs(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      device_(context_.device(site.name)),
      track_(context_.track("storage", "flash")),
      limits_{params.bytes("max_transfer"), whole_part(params, "queue_depth") * whole_part(params, "queues")},
      issue_cycles_(params.number("issue_cycles")),
      issue_fixed_(params.time("issue_fixed")),
      latency_sequential_(params.time("latency_sequential")),
      latency_write_(params.time("latency_write")),
      command_overhead_(params.time("command_overhead")),
      transfer_overhead_(params.time("transfer_overhead")),
      beyond_flash_(params.time("latency_random") - params.time("media_time")),
      map_beyond_flash_(params.time("map_cache_miss") - params.time("media_time")),
      link_(rate(params, "link_bandwidth")),
      write_bandwidth_(rate(params, "write_bandwidth")),
      write_sustained_(rate(params, "write_bandwidth_sustained")),
      fold_bandwidth_(params.bandwidth("fold_bandwidth")),
      slc_buffer_(static_cast<double>(params.bytes("slc_buffer"))),
      write_memory_(static_cast<double>(params.bytes("write_memory"))),
      queue_(context_, {device_, kDoorbell},
             {whole_part(params, "queues"), whole_part(params, "queue_depth"), params.time("issuer_switch")},
             [this](std::uint32_t command) { enter(command); }),
      controller_(whole_part(params, "controller_cores")),
      flash_({whole_part(params, "media_channels"), whole_part(params, "media_dies"), params.time("media_time"), params.bytes("media_unit"),
             rate(params, "media_bandwidth"), link_}),
      map_(
          params.bytes("map_cache_reach"), whole_part(params, "map_fetches"), [this](std::uint64_t segment) { fetch_map(segment); },
          [this](std::uint32_t command) { read(command); }) {
  if (limits_.max_transfer < kPageSize) throw ConfigError(params.path() + ".max_transfer: must be 4 KiB or more");
  if (params.bytes("media_unit") < kPageSize) throw ConfigError(params.path() + ".media_unit: must be 4 KiB or more");
  up_.port = dram_.add_port({"flash reads", link_, site.port});
  down_.port = dram_.add_port({"flash writes", link_, site.port});
}

Picoseconds FlowUfs::issue_time(Hertz core_clock) const { return issue_fixed_ + from_seconds(issue_cycles_ / core_clock.value); }

void FlowUfs::submit(const IoRequest& request, Callback done) {
  VITRO_CHECK(request.length > 0 && request.length <= limits_.max_transfer, "a UFS command moves 1 to max_transfer bytes");
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(commands_.size()));
    commands_.emplace_back();
  }
  const std::uint32_t command = free_.back();
  free_.pop_back();
  commands_[command] = {request, done, 0};
  if (queue_.in_flight() == 0) {
    const double idle = to_seconds(context_.now() - last_end_);
    in_slc_ = std::max(0.0, in_slc_ - idle * fold_bandwidth_.value);
  }
  queue_.submit(command, request.issuer);
}

void FlowUfs::enter(std::uint32_t command) {
  const IoRequest& request = commands_[command].request;
  const Picoseconds handled = controller_.serve(context_.now(), command_overhead_);
  if (request.write) return ready_at(command, handled + latency_write_);
  // Data and map page of a stream were fetched ahead, unless it begins with a read that is itself still on its way.
  if (request.sequential && !random_ends_.contains(request.address)) {
    map_.pass(request.address);
    return ready_at(command, handled + latency_sequential_);
  }
  commands_[command].order = ++orders_;
  random_ends_.insert(request.address + request.length);
  context_.at(handled, {device_, kHandled}, [this, command] {
    if (map_.look_up(command, commands_[command].request.address)) read(command);
  });
}

void FlowUfs::fetch_map(std::uint64_t segment) {
  const Picoseconds here = flash_.read_map(context_.now(), MapCache::die(segment)) + map_beyond_flash_;
  context_.at(here, {device_, kMapPage}, [this, segment] {
    const Picoseconds handled = controller_.serve(context_.now(), command_overhead_);  // takes up again what waited
    context_.at(handled, {device_, kMapped}, [this, segment] { map_.arrived(segment); });
  });
}

void FlowUfs::read(std::uint32_t command) {
  const auto& [request, done, order] = commands_[command];
  ready_at(command, flash_.read(context_.now(), order, request.address, request.length) + beyond_flash_);
}

void FlowUfs::ready_at(std::uint32_t command, Picoseconds when) {
  context_.at(when, {device_, kReady}, [this, command] {
    Direction& direction = commands_[command].request.write ? down_ : up_;
    direction.waiting.push_back(command);
    pump(direction);
  });
}

// Programming goes on behind the write memory: to SLC while that has room (submit() gives back what was folded while the
// device was idle), to TLC after. A write goes at the link's rate until it would overfill the memory.
Picoseconds FlowUfs::write_pace(Bytes length) {
  const auto bytes = static_cast<double>(length);
  const double to_slc = std::clamp(slc_buffer_ - in_slc_, 0.0, bytes);
  in_slc_ += to_slc;
  const double rate = to_slc > 0 ? write_bandwidth_.value : write_sustained_.value;
  const Picoseconds now = context_.now();
  programmed_ = std::max(programmed_, now) + from_seconds(bytes / rate);
  return std::max(transfer_time(length, link_), programmed_ - from_seconds(write_memory_ / rate) - now);
}

void FlowUfs::pump(Direction& direction) {
  if (direction.busy || direction.waiting.empty()) return;
  const std::uint32_t command = direction.waiting.front();
  direction.waiting.pop_front();
  direction.busy = true;
  direction.began = context_.now();
  const IoRequest& request = commands_[command].request;
  const Picoseconds pace = transfer_overhead_ + (request.write ? write_pace(request.length) : transfer_time(request.length, link_));
  dram_.submit({direction.port, request.length, request.write ? 0 : request.length, pace}, [this, command] { finish(command); });
}

void FlowUfs::finish(std::uint32_t command) {
  const Command ended = commands_[command];
  free_.push_back(command);
  const Picoseconds now = context_.now();
  Direction& direction = ended.request.write ? down_ : up_;
  direction.moved.add(direction.began, now, static_cast<double>(ended.request.length));
  if (context_.tracing()) context_.span(track_, direction.began, now, ended.request.write ? "write" : "read");
  direction.busy = false;
  if (ended.order > 0) random_ends_.erase(random_ends_.find(ended.request.address + ended.request.length));
  queue_.complete(ended.request.issuer);
  last_end_ = now;
  pump(direction);
  Callback done = ended.done;
  done();
}

}  // namespace vitro::hw
