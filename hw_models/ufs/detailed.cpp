#include "hw_models/ufs/detailed.hpp"

#include <fmt/format.h>

#include "hw_models/ufs/parameters.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kDoorbell, kController };

// What one grant of the link moves at most; later data of an older command waits no longer than this.
constexpr std::uint32_t kBurst = 4;

NandSpec nand_spec(const Params& params) {
  NandSpec spec;
  spec.channels = count(params, "channels");
  spec.dies_per_channel = count(params, "dies_per_channel");
  spec.planes = count(params, "planes");
  spec.page = params.bytes("page");
  if (spec.page == 0 || spec.page % kPageSize != 0) params.fail("page", "must be a multiple of 4 KiB");
  spec.read = params.time("read_time");
  spec.erase = params.time("erase_time");
  spec.channel_rate = rate(params, "channel_rate");
  spec.retry_probability = params.ratio("retry_probability");
  spec.retry = params.time("retry_time");
  return spec;
}

std::uint64_t capacity_sectors(const Params& params) { return params.bytes("flash_capacity") / kPageSize; }

FtlSpec ftl_spec(const Params& params) {
  const NandSpec nand = nand_spec(params);
  FtlSpec spec;
  spec.dies = nand.dies();
  spec.stripe = nand.stripe();
  const std::uint64_t superblock = std::uint64_t{spec.dies} * spec.stripe * count(params, "pages_per_block");
  const std::uint64_t whole = capacity_sectors(params) / superblock;
  if (whole < 4 || whole > (1u << 20) || superblock > (1u << 30)) {
    params.fail("flash_capacity",
                fmt::format("makes {} superblocks of {} (expected 4 to 1048576)", whole, format_bytes(superblock * kPageSize)));
  }
  spec.superblock = static_cast<std::uint32_t>(superblock);
  const double filled = params.ratio("filled");
  if (filled > 1) params.fail("filled", "must be 100% or less");
  spec.filled = static_cast<std::uint64_t>(static_cast<double>(whole) * filled) * superblock;
  // At least what garbage collection needs to work with.
  const auto spare = std::max<std::uint64_t>(4, static_cast<std::uint64_t>(static_cast<double>(whole) * params.ratio("overprovision")));
  spec.superblocks = static_cast<std::uint32_t>(whole + spare);
  Ftl slc(FtlSpec{spec.dies, spec.stripe, spec.superblock, 1, 1, 0});
  spec.slc_superblocks = static_cast<std::uint32_t>(params.bytes("slc_buffer") / kPageSize / slc.sectors_of(1));
  return spec;
}

WriteSpec write_spec(const Params& params) {
  const std::uint32_t memory = static_cast<std::uint32_t>(params.bytes("write_memory") / kPageSize);
  if (memory * kPageSize < params.bytes("max_transfer") + nand_spec(params).stripe() * kPageSize) {
    params.fail("write_memory", "must hold a command of max_transfer and one page of each plane");
  }
  return {memory, params.time("program_time"), params.time("slc_program_time"), params.time("fold_delay"), 2};
}

}  // namespace

DetailedUfs::DetailedUfs(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      device_(context_.device(site.name)),
      track_(context_.track("link", "flash")),
      limits_{params.bytes("max_transfer"), count(params, "queue_depth") * count(params, "queues")},
      issue_cycles_(params.number("issue_cycles")),
      issue_fixed_(params.time("issue_fixed")),
      command_overhead_(params.time("command_overhead")),
      command_latency_(params.time("command_latency")),
      link_{count(params, "lanes") * rate(params, "lane_rate").value * params.ratio("line_code") * params.ratio("protocol_efficiency")},
      queue_(context_, {device_, kDoorbell}, {count(params, "queues"), count(params, "queue_depth"), params.time("issuer_switch")},
             [this](std::uint32_t command) { enter(command); }),
      controller_(count(params, "controller_cores")),
      map_(
          params.bytes("map_cache_reach"), count(params, "map_fetches"), [this](std::uint64_t segment) { fetch_map(segment); },
          [this](std::uint32_t command) { read(command); }),
      ftl_(ftl_spec(params)),
      nand_(context_, device_, nand_spec(params)),
      write_path_(context_, device_, nand_, ftl_, write_spec(params)),
      read_ahead_(count(params, "read_streams"), params.bytes("read_ahead") / kPageSize),
      capacity_(capacity_sectors(params)) {
  if (!(link_.value > 0)) params.fail("protocol_efficiency", "leaves the link no bandwidth");
  if (limits_.max_transfer < kPageSize) params.fail("max_transfer", "must be 4 KiB or more");
  up_.port = dram_.add_port({"flash reads", link_, site.port});
  down_.port = dram_.add_port({"flash writes", link_, site.port});
}

Picoseconds DetailedUfs::issue_time(Hertz core_clock) const { return issue_fixed_ + from_seconds(issue_cycles_ / core_clock.value); }

FlashWrites DetailedUfs::writes() const {
  const WriteTotals& totals = write_path_.totals();
  const auto host = static_cast<double>(totals.to_slc + totals.to_tlc);
  const auto moves = static_cast<double>(std::max(totals.to_slc, totals.folded) + totals.collected);  // those to come included
  return {host * kPageSize, (host + moves) * kPageSize};
}

void DetailedUfs::submit(const IoRequest& request, Callback done) {
  VITRO_CHECK(request.length > 0 && request.length <= limits_.max_transfer, "a UFS command moves 1 to max_transfer bytes");
  VITRO_CHECK(request.address % kPageSize == 0 && request.length % kPageSize == 0, "a UFS command moves whole blocks of 4 KiB");
  if ((request.address + request.length) / kPageSize > capacity_) {
    throw RunError(
        fmt::format("storage: address {} is beyond the flash device's {}", request.address, format_bytes(capacity_ * kPageSize)));
  }
  if (free_commands_.empty()) {
    free_commands_.push_back(static_cast<std::uint32_t>(commands_.size()));
    commands_.emplace_back();
  }
  const std::uint32_t command = free_commands_.back();
  free_commands_.pop_back();
  commands_[command] = {request, done, 0, 0, 0};
  write_path_.host_active();
  queue_.submit(command, request.issuer);
}

void DetailedUfs::enter(std::uint32_t command) {
  commands_[command].order = ++orders_;
  const Picoseconds handled = controller_.serve(context_.now(), command_overhead_) + command_latency_;
  const bool is_write = commands_[command].request.write;
  context_.at(handled, {device_, kController}, [this, command, is_write] { is_write ? write(command) : look_up(command); });
}

void DetailedUfs::look_up(std::uint32_t command) {
  if (map_.look_up(command, commands_[command].request.address)) read(command);
}

// Data can wait for map pages, so they cross the channel first.
void DetailedUfs::fetch_map(std::uint64_t segment) { read_flash({NandRead::Kind::map, segment, 0}, 1, 0); }

void DetailedUfs::read_flash(NandRead read, std::uint32_t sectors, std::uint64_t order) {
  if (free_reads_.empty()) {
    free_reads_.push_back(static_cast<std::uint32_t>(reads_.size()));
    reads_.emplace_back();
  }
  NandOperation operation;
  operation.tag = free_reads_.back();
  free_reads_.pop_back();
  reads_[operation.tag] = read;
  operation.die = read.kind == NandRead::Kind::map ? static_cast<std::uint32_t>(MapCache::die(read.first) % nand_.spec().dies())
                                                   : ftl_.die(ftl_.find(read.first));
  operation.sectors = sectors;
  operation.order = order;
  operation.client = this;
  nand_.submit(operation);
}

void DetailedUfs::read(std::uint32_t command) {
  const std::uint64_t first = commands_[command].first(), order = commands_[command].order;
  const std::uint32_t sectors = commands_[command].sectors(), stripe = nand_.spec().stripe();
  std::uint32_t here = 0;
  if (ReadAhead::Stream* stream = read_ahead_.follow(first, sectors)) {
    read_ahead_.extend(*stream, stripe, [&](std::uint64_t from, std::uint32_t n) {
      if (from * kPageSize % MapCache::kSegment == 0) map_.pass(from * kPageSize);
      read_flash({NandRead::Kind::stream, from, stream->id}, n, order);
    });
    for (std::uint64_t sector = first; sector < first + sectors; ++sector) here += read_ahead_.take(*stream, sector, command) ? 1 : 0;
    return sectors_ready(command, here);
  }
  for (std::uint32_t done = 0; done < sectors;) {
    const std::uint64_t sector = first + done;
    if (write_path_.holds(sector)) {
      ++here, ++done;
      continue;
    }
    // Neighbours on one die's stripe are one operation.
    const Ftl::Place place = ftl_.find(sector);
    std::uint32_t n = 1;
    while (done + n < sectors && place.sector / stripe == (place.sector + n) / stripe && !write_path_.holds(sector + n) &&
           ftl_.find(sector + n) == Ftl::Place{place.superblock, place.sector + n}) {
      ++n;
    }
    read_flash({NandRead::Kind::command, sector, command}, n, order);
    done += n;
  }
  sectors_ready(command, here);
}

void DetailedUfs::sector_arrived(std::uint64_t tag, std::uint32_t index) {
  const NandRead& read = reads_[tag];
  if (read.kind == NandRead::Kind::command) return sectors_ready(static_cast<std::uint32_t>(read.owner), 1);
  if (read.kind != NandRead::Kind::stream) return;
  ReadAhead::Stream* stream = read_ahead_.find(read.owner);
  if (stream == nullptr) return;  // replaced by another stream meanwhile
  if (const auto command = read_ahead_.arrived(*stream, read.first + index)) sectors_ready(*command, 1);
}

void DetailedUfs::operation_done(std::uint64_t tag) {
  const NandRead read = reads_[tag];
  free_reads_.push_back(static_cast<std::uint32_t>(tag));
  if (read.kind != NandRead::Kind::map) return;
  // The controller takes up again what waited for the page.
  const Picoseconds handled = controller_.serve(context_.now(), command_overhead_);
  context_.at(handled, {device_, kController}, [this, segment = read.first] { map_.arrived(segment); });
}

void DetailedUfs::write(std::uint32_t command) {
  const std::uint32_t sectors = commands_[command].sectors();
  write_path_.reserve(sectors, [this, command, sectors] { sectors_ready(command, sectors); });
}

void DetailedUfs::sectors_ready(std::uint32_t command, std::uint32_t sectors) {
  if (sectors == 0) return;
  Command& target = commands_[command];
  target.ready += sectors;
  Direction& direction = target.request.write ? down_ : up_;
  direction.waiting.emplace(target.order, command);
  pump(direction);
}

void DetailedUfs::pump(Direction& direction) {
  if (direction.busy || direction.waiting.empty()) return;
  const std::uint32_t command = direction.waiting.begin()->second;
  Command& target = commands_[command];
  const std::uint32_t sectors = std::min(target.ready, kBurst);
  target.ready -= sectors;
  if (target.ready == 0) direction.waiting.erase(direction.waiting.begin());
  direction.busy = true;
  const Bytes length = sectors * kPageSize;
  // One number for both, since a callback holds 24 bytes.
  const std::uint32_t burst = command * kBurst + (sectors - 1);
  dram_.submit({direction.port, length, target.request.write ? 0 : length, transfer_time(length, link_)},
               [this, began = context_.now(), burst] { moved(burst / kBurst, burst % kBurst + 1, began); });
}

void DetailedUfs::moved(std::uint32_t command, std::uint32_t sectors, Picoseconds began) {
  Command& target = commands_[command];
  Direction& direction = target.request.write ? down_ : up_;
  direction.busy = false;
  direction.moved.add(began, context_.now(), static_cast<double>(sectors * kPageSize));
  if (context_.tracing()) context_.span(track_, began, context_.now(), target.request.write ? "write" : "read");
  target.moved += sectors;
  if (target.request.write) write_path_.store(target.first() + target.moved - sectors, sectors);
  pump(direction);
  if (target.moved == target.sectors()) finish(command);
}

void DetailedUfs::finish(std::uint32_t command) {
  const Command ended = commands_[command];
  free_commands_.push_back(command);
  queue_.complete(ended.request.issuer);
  if (queue_.in_flight() == 0) write_path_.host_quiet();
  Callback done = ended.done;
  done();
}

}  // namespace vitro::hw
