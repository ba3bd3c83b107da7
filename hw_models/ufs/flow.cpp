#include "hw_models/ufs/flow.hpp"

#include <algorithm>

#include "hw_models/ufs/parameters.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kDoorbell, kReadsReady, kWriteReady };

// A sensitivity run varies counts by fractions; the closed forms take what is whole of them.
std::uint32_t whole_part(const Params& params, std::string_view key) {
  const double value = params.number(key);
  if (value < 1 || value > 65536) params.fail(key, "must be 1 or more");
  return static_cast<std::uint32_t>(value);
}

}  // namespace

FlowUfs::FlowUfs(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      device_(context_.device(site.name)),
      track_(context_.track("link", "flash")),
      limits_{params.bytes("max_transfer"), whole_part(params, "queue_depth") * whole_part(params, "queues")},
      slots_(whole_part(params, "queue_depth")),
      issue_cycles_(params.number("issue_cycles")),
      issue_fixed_(params.time("issue_fixed")),
      latency_sequential_(params.time("latency_sequential")),
      latency_write_(params.time("latency_write")),
      command_overhead_(params.time("command_overhead")),
      transfer_overhead_(params.time("transfer_overhead")),
      latency_random_(params.time("latency_random")),
      beyond_flash_(latency_random_ - params.time("media_time")),
      map_beyond_flash_(params.time("map_cache_miss") - params.time("media_time")),
      link_(rate(params, "link_bandwidth")),
      write_bandwidth_(rate(params, "write_bandwidth")),
      write_sustained_(rate(params, "write_bandwidth_sustained")),
      fold_bandwidth_(params.bandwidth("fold_bandwidth")),
      slc_buffer_(static_cast<double>(params.bytes("slc_buffer"))),
      write_memory_(static_cast<double>(params.bytes("write_memory"))),
      queue_(context_, {device_, kDoorbell},
             {whole_part(params, "queues"), slots_, params.time("issuer_switch")},
             [this](std::uint32_t command) { enter(command); }),
      controller_(whole_part(params, "controller_cores")),
      flash_({whole_part(params, "media_channels"), whole_part(params, "media_dies"), params.time("media_time"), params.bytes("media_unit"),
              rate(params, "media_bandwidth"), link_}),
      map_(
          params.bytes("map_cache_reach"), whole_part(params, "map_fetches"), [this](std::uint64_t segment) { fetch_map(segment); },
          [this](std::uint32_t command) { read(command); }),
      groups_(transfer_overhead_, link_),
      together_(params.word("completions") == "together") {
  if (limits_.max_transfer < kPageSize) params.fail("max_transfer", "must be 4 KiB or more");
  if (params.bytes("media_unit") < kPageSize) params.fail("media_unit", "must be 4 KiB or more");
  up_.port = dram_.add_port({"flash reads", link_, site.port});
  down_.port = dram_.add_port({"flash writes", link_, site.port});
}

Picoseconds FlowUfs::issue_time(Hertz core_clock) const { return issue_fixed_ + from_seconds(issue_cycles_ / core_clock.value); }

std::uint32_t FlowUfs::take_command(const IoRequest& request, Callback done) {
  VITRO_CHECK(request.length > 0 && request.length <= limits_.max_transfer, "a UFS command moves 1 to max_transfer bytes");
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(commands_.size()));
    commands_.emplace_back();
  }
  const std::uint32_t command = free_.back();
  free_.pop_back();
  commands_[command] = {request, done};
  if (queue_.in_flight() == 0) {
    const double idle = to_seconds(context_.now() - last_end_);
    in_slc_ = std::max(0.0, in_slc_ - idle * fold_bandwidth_.value);
  }
  return command;
}

void FlowUfs::submit(const IoRequest& request, Callback done) { queue_.submit(take_command(request, done), request.issuer); }

void FlowUfs::submit_reads(std::span<const TimedRead> reads, Callback done) {
  VITRO_CHECK(!reads.empty() && reads.size() <= slots_, "reads that enter together have slots together");
  const std::uint32_t command = take_command(reads.front().request, done);
  commands_[command].group = groups_.add(reads, command, context_.now());
  queue_.submit(command, reads.front().request.issuer, static_cast<std::uint32_t>(reads.size()));
}

// Data and map page of a stream were fetched ahead, unless it begins with a read that is itself still on its way.
bool FlowUfs::streams(std::uint64_t address) const {
  return std::find(random_ends_.begin(), random_ends_.end(), address) == random_ends_.end() && !groups_.one_ends_at(address);
}

// Those that were issued while others of the group were still being issued came before now, unless the group had to wait for slots.
void FlowUfs::enter_together(std::uint32_t number) {
  const Picoseconds now = context_.now();
  groups_.enters(number);
  for (std::size_t i = 0; i < groups_[number].reads.size(); ++i) {
    const auto& [request, issued] = groups_[number].reads[i];
    const Picoseconds came = groups_[number].submitted == now ? issued : now;
    work_off(came);  // of those before it
    const Picoseconds handled = controller_.serve(came, command_overhead_);
    const std::uint32_t command = take_command(request, {});
    commands_[command].group = number;
    if (request.sequential && streams(request.address)) {
      map_.pass(request.address);
      note_ready(command, handled + latency_sequential_);
      continue;
    }
    commands_[command].order = ++orders_;
    inside_.push({handled, command, Step::What::handled});
  }
  work_off(now);  // some may have got further since they were issued
  arm();
}

// It waits for the link, or is of a group, which does when all are ready. A group's transfer may begin in the past; the link takes it from
// now on.
void FlowUfs::note_ready(std::uint32_t command, Picoseconds when) {
  const std::uint32_t group = commands_[command].group;
  if (group == kAlone) return ready_.push({when, command, Step::What::ready});
  free_.push_back(command);
  if (!groups_.note_ready(group, when, commands_[command].request.length)) return;
  ready_.push({std::max(groups_[group].transfer.begin, context_.now()), groups_[group].leader, Step::What::ready});
}

void FlowUfs::enter(std::uint32_t command) {
  if (commands_[command].group != kAlone) return enter_together(commands_[command].group);
  const IoRequest& request = commands_[command].request;
  work_off(context_.now());
  const Picoseconds handled = controller_.serve(context_.now(), command_overhead_);
  if (request.write) {
    context_.at(handled + latency_write_, {device_, kWriteReady}, [this, command] {
      waiting_writes_.push_back(command);
      pump_writes();
    });
    return;
  }
  if (request.sequential && streams(request.address)) {
    map_.pass(request.address);
    note_ready(command, handled + latency_sequential_);
  } else {
    commands_[command].order = ++orders_;
    random_ends_.push_back(request.address + request.length);
    inside_.push({handled, command, Step::What::handled});
  }
  arm();
}

void FlowUfs::work_off(Picoseconds until) {
  while (!inside_.empty() && inside_.front().when <= until) {
    const Step step = inside_.pop();
    inside_now_ = std::max(inside_now_, step.when);  // reads of a group come before now
    const auto command = static_cast<std::uint32_t>(step.subject);
    if (step.what == Step::What::handled) {
      if (map_.look_up(command, commands_[command].request.address)) read(command);
    } else if (step.what == Step::What::map_page) {  // the controller takes up again what waited
      inside_.push({controller_.serve(step.when, command_overhead_), step.subject, Step::What::mapped});
    } else {
      map_.arrived(step.subject);
    }
  }
}

void FlowUfs::fetch_map(std::uint64_t segment) {
  inside_.push({flash_.read_map(inside_now_, MapCache::die(segment)) + map_beyond_flash_, segment, Step::What::map_page});
}

void FlowUfs::read(std::uint32_t command) {
  const IoRequest& request = commands_[command].request;
  note_ready(command, flash_.read(inside_now_, commands_[command].order, request.address, request.length) + beyond_flash_);
}

// The next time at which a read may want an idle link. A busy one looks for itself when it gets free.
void FlowUfs::arm() {
  if (up_.busy) return;
  Picoseconds next = Picoseconds::max();
  if (!ready_.empty()) next = ready_.front().when;
  if (!inside_.empty()) {  // not before the step itself: else nothing would be done then, again and again
    next = std::min(next, inside_.front().when + std::max(latency_random_ - groups_.head_start(), Picoseconds(0)));
  }
  next = std::max(next, context_.now());
  if (next >= armed_) return;
  armed_ = next;
  context_.at(next, {device_, kReadsReady}, [this] {
    if (context_.now() != armed_) return;  // overtaken by an earlier one, which armed again
    armed_ = Picoseconds::max();
    pump_reads();
  });
}

void FlowUfs::pump_reads() {
  if (up_.busy) return;
  work_off(context_.now());
  if (ready_.empty() || ready_.front().when > context_.now()) return arm();
  start(up_, static_cast<std::uint32_t>(ready_.pop().subject));
}

void FlowUfs::pump_writes() {
  if (down_.busy || waiting_writes_.empty()) return;
  const std::uint32_t command = waiting_writes_.front();
  waiting_writes_.pop_front();
  start(down_, command);
}

// Programming goes on behind the write memory: to SLC while that has room (submit() gives back what was folded while the
// device was idle), to TLC after. A write goes at the link's rate until it would overfill the memory.
Picoseconds FlowUfs::write_pace(Bytes length) {
  const auto bytes = static_cast<double>(length);
  const double to_slc = std::clamp(slc_buffer_ - in_slc_, 0.0, bytes);
  in_slc_ += to_slc;
  to_slc_ += to_slc;
  to_tlc_ += bytes - to_slc;
  const double rate = to_slc > 0 ? write_bandwidth_.value : write_sustained_.value;
  const Picoseconds now = context_.now();
  programmed_ = std::max(programmed_, now) + from_seconds(bytes / rate);
  return std::max(transfer_time(length, link_), programmed_ - from_seconds(write_memory_ / rate) - now);
}

void FlowUfs::start(Direction& direction, std::uint32_t command) {
  direction.busy = true;
  direction.began = context_.now();
  const auto& [request, done, group, order] = commands_[command];
  if (group != kAlone) {
    const ReadGroups::LinkTransfer& transfer = groups_[group].transfer;
    return dram_.submit({direction.port, transfer.bytes, transfer.bytes, transfer.transfers}, [this, command] { finish(command); });
  }
  const Picoseconds pace = transfer_overhead_ + (request.write ? write_pace(request.length) : transfer_time(request.length, link_));
  dram_.submit({direction.port, request.length, request.write ? 0 : request.length, pace}, [this, command] { finish(command); });
}

void FlowUfs::finish(std::uint32_t command) {
  const Command ended = commands_[command];
  free_.push_back(command);
  const Picoseconds now = context_.now();
  Direction& direction = ended.request.write ? down_ : up_;
  const bool alone = ended.group == kAlone;
  direction.moved.add(direction.began, now, static_cast<double>(alone ? ended.request.length : groups_[ended.group].transfer.bytes));
  if (context_.tracing()) context_.span(track_, direction.began, now, ended.request.write ? "write" : "read");
  if (ended.order > 0) {
    *std::find(random_ends_.begin(), random_ends_.end(), ended.request.address + ended.request.length) = random_ends_.back();
    random_ends_.pop_back();
  }
  queue_.complete(ended.request.issuer, alone ? 1 : static_cast<std::uint32_t>(groups_[ended.group].reads.size()));
  if (!alone) groups_.remove(ended.group);
  last_end_ = now;
  direction.busy = false;
  if (ended.request.write) {
    pump_writes();
  } else {
    pump_reads();
  }
  if (ended.request.write || !together_) return Callback(ended.done)();
  unreported_.push_back(ended.done);
  if (!up_.busy) report_reads();
}

void FlowUfs::report_reads() {
  for (Callback& done : std::exchange(unreported_, {})) done();
}

}  // namespace vitro::hw
