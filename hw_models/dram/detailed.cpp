#include "hw_models/dram/detailed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kPace = 1, kEnd };

constexpr double kNoWait = std::numeric_limits<double>::infinity();
constexpr Bytes kBurst = 8 * KiB;
constexpr Picoseconds kAccountEvery{1'000'000};

double picoseconds(Picoseconds t) { return static_cast<double>(t.count()); }

constexpr ParamSpec kParams[] = {
    {"bandwidth", Dimension::bandwidth, "", ""},                                   // what all agents together were seen to reach
    {"latency", Dimension::time, "100 ns", "typical loaded LPDDR5 read latency"},  // of one access, through the fabric
    {"capacity", Dimension::bytes, "", ""},
    {"available", Dimension::bytes, "", ""},
    {"part", Dimension::none, "lpddr5x_8533", "", "lpddr5_6400|lpddr5x_8533|lpddr5x_9600|m2_lpddr5_6400"},
    {"mapping", Dimension::none, "mop4", "", "mop4|mop4_column_xor|robaracoch|rocobarach|chrabaroco"},
    {"refresh", Dimension::none, "per_bank", "", "none|all_bank|per_bank"},
    {"queue", Dimension::none, "32", "entries of each channel's read and write queue; as public simulators have it"},
    {"window", Dimension::none, "512", "lines that one agent has under way: more than bandwidth times latency"},
};

}  // namespace

std::vector<ParamSpec> DetailedDram::params() { return {std::begin(kParams), std::end(kParams)}; }

std::unique_ptr<DetailedDram> DetailedDram::make(const Site& site, const Params& params) {
  const DramPart& part = dram_part(params.word("part"));
  ControllerPolicy policy;
  policy.queue = static_cast<std::uint32_t>(params.number("queue"));
  if (policy.queue < 2) params.fail("queue", "must be 2 or more");
  const std::string& refresh = params.word("refresh");
  policy.refresh = refresh == "none" ? RefreshPolicy::none : refresh == "all_bank" ? RefreshPolicy::all_bank : RefreshPolicy::per_bank;
  Limits limits{params.bandwidth("bandwidth"), static_cast<std::uint32_t>(params.number("window")), {}};
  if (limits.window == 0) params.fail("window", "must be 1 or more");
  limits.fabric = part.fabric(params.time("latency"));
  return std::make_unique<DetailedDram>(site,
                                        std::make_unique<DramChannels>(site.context, site.context.device("dram channels"), part.timing,
                                                                       part.organisation, params.word("mapping"), policy),
                                        limits);
}

DetailedDram::DetailedDram(const Site& site, std::unique_ptr<LineMemory> memory, const Limits& limits)
    : context_(site.context),
      memory_(std::move(memory)),
      line_(memory_->line()),
      burst_(std::max(1.0, static_cast<double>(kBurst / line_))),
      limits_(limits),
      label_{context_.device(site.name), kPace},
      track_(context_.track("memory", "dram")),
      rng_(context_.rng("dram")),
      ports_(1) {
  if (limits.total.value > 0) ports_[0].interval = interval_at(limits.total);
  memory_->connect(*this);
}

double DetailedDram::interval_at(BytesPerSecond rate) const { return static_cast<double>(line_) / rate.value * 1e12; }

std::uint64_t DetailedDram::lines_of(const DramRequest& what, std::uint64_t chunk_start) const {
  return (chunk_start % line_ + what.chunk + line_ - 1) / line_;
}

PortId DetailedDram::add_port(const PortSpec& spec) {
  VITRO_CHECK(spec.cap.value > 0 && spec.weight > 0, "a DRAM port needs a bandwidth and a weight");
  Port port;
  port.interval = interval_at(spec.cap);
  port.weight = spec.weight;
  port.parent = static_cast<std::size_t>(spec.parent);
  // Streams of different ports begin in unrelated places.
  port.cursor = round_down(mix(ports_.size(), {0x64, 0x72}) % memory_->capacity(), kPageSize);
  ports_.push_back(std::move(port));
  ports_[static_cast<std::size_t>(spec.parent)].children.push_back(ports_.size() - 1);
  return PortId(ports_.size() - 1);
}

void DetailedDram::submit(const DramRequest& what, Callback done) {
  VITRO_CHECK(what.written <= what.length, "a request can not write more than it moves");
  const Picoseconds now = context_.now();
  if (what.length == 0) return context_.at(now + what.pace, {label_.device, kEnd}, done);
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const std::uint32_t tag = free_.back();
  free_.pop_back();
  Request& request = requests_[tag];
  request = {};
  request.what = what;
  request.port = static_cast<std::size_t>(what.port);
  request.done = done;
  request.earliest_end = now + what.pace;
  if (what.chunk == 0 || what.chunk > what.length) request.what.chunk = what.length;
  Port& port = ports_[request.port];
  Cursor& reads = request.reads;
  reads.chunk_start = what.address;
  if (what.address == kNextAddress) {
    reads.chunk_start = port.cursor;
    if (request.what.chunk == what.length)
      port.cursor = (port.cursor + what.length) % memory_->capacity();
    else if (what.stride == 0)
      next_chunk(request.what, reads);
  }
  const std::uint64_t chunks = (what.length + request.what.chunk - 1) / request.what.chunk;
  const std::uint64_t chunk_lines = lines_of(request.what, reads.chunk_start);
  request.lines = chunks * chunk_lines;
  reads.chunk_left = chunk_lines;
  reads.address = reads.chunk_start;
  request.written_share = static_cast<double>(what.written) / static_cast<double>(what.length);
  request.written = static_cast<std::uint64_t>(std::llround(request.written_share * static_cast<double>(request.lines)));
  // The bytes to write lie behind those to read.
  const std::uint64_t read = request.written > 0 ? request.lines - request.written : 0;
  request.writes = reads;
  if (read >= chunk_lines) next_chunk(request.what, request.writes, read / chunk_lines);
  request.writes.address = request.writes.chunk_start + read % chunk_lines * line_;
  request.writes.chunk_left = chunk_lines - read % chunk_lines;
  request.bytes_per_line = static_cast<double>(what.length) / static_cast<double>(request.lines);
  request.interval = picoseconds(what.pace) / static_cast<double>(request.lines);
  request.free_at = picoseconds(now);
  port.requests.push_back(tag);
  start(request.port);
  if (!sending_) send();
}

void DetailedDram::start(std::size_t index) {
  for (;; index = ports_[index].parent) {
    Port& port = ports_[index];
    if (port.sending++ == 0 && index != 0) {
      // Whoever was idle has saved up nothing: it starts level with the sibling that was served least.
      double least = kNoWait;
      for (const std::size_t sibling : ports_[port.parent].children) {
        if (sibling != index && ports_[sibling].sending > 0) least = std::min(least, ports_[sibling].served);
      }
      if (least != kNoWait) port.served = std::max(port.served, least);
    }
    if (index == 0) return;
  }
}

void DetailedDram::next_chunk(const DramRequest& what, Cursor& cursor, std::uint64_t chunks) {
  if (what.stride > 0) {
    cursor.chunk_start = (cursor.chunk_start + chunks * what.stride) % memory_->capacity();
    return;
  }
  const Bytes alignment = std::max(what.chunk & (~what.chunk + 1), line_);  // the power of two that the size is a multiple of
  cursor.chunk_start = rng_.below(memory_->capacity() / alignment) * alignment;
}

void DetailedDram::send() {
  sending_ = true;
  wait_ = kNoWait;
  refused_ = false;
  while (send_from(0)) {}
  sending_ = false;
  if (wait_ == kNoWait) return;
  const Picoseconds when(static_cast<std::int64_t>(std::ceil(wait_)));
  if (when >= armed_) return;
  armed_ = when;
  context_.at(when, label_, [this] {
    if (context_.now() != armed_) return;  // overtaken by an earlier one
    armed_ = Picoseconds::max();
    send();
  });
}

// One line out of this subtree, if any may go now. Caps hold on the whole way up.
bool DetailedDram::send_from(std::size_t index) {
  Port& port = ports_[index];
  if (port.sending == 0) return false;
  if (port.free_at > picoseconds(context_.now())) {
    wait_until(port.free_at);
    return false;
  }
  if (!send_own(port) && !send_child(port)) return false;
  take_turn(port);
  return true;
}

void DetailedDram::take_turn(Port& port) {
  port.served += 1 / port.weight;
  port.free_at = std::max(port.free_at, picoseconds(context_.now()) - burst_ * port.interval) + port.interval;
}

bool DetailedDram::send_child(Port& port) {
  // By what they were served so far; whoever can not send passes its turn on.
  std::uint64_t tried = 0;
  for (std::size_t round = 0; round < port.children.size(); ++round) {
    std::size_t best = port.children.size();
    for (std::size_t i = 0; i < port.children.size(); ++i) {
      const Port& child = ports_[port.children[i]];
      if ((tried >> i & 1) != 0 || child.sending == 0) continue;
      if (best == port.children.size() || child.served < ports_[port.children[best]].served) best = i;
    }
    if (best == port.children.size()) return false;
    if (send_from(port.children[best])) return true;
    tried |= std::uint64_t{1} << best;
  }
  return false;
}

bool DetailedDram::send_own(Port& port) {
  if (port.under_way >= limits_.window) return false;
  const double now = picoseconds(context_.now());
  for (std::size_t i = 0; i < port.requests.size(); ++i) {
    const std::uint32_t tag = port.requests[i];
    Request& request = requests_[tag];
    if (request.free_at > now) {
      wait_until(request.free_at);
      continue;
    }
    const bool write = (request.sent + 1) * request.written / request.lines != request.sent * request.written / request.lines;
    Cursor& cursor = write ? request.writes : request.reads;
    if (!memory_->try_push(cursor.address % memory_->capacity(), write, tag)) {
      refused_ = true;
      return false;
    }
    ++port.under_way;
    request.free_at = std::max(request.free_at, now - burst_ * request.interval) + request.interval;
    cursor.address += line_;
    if (--cursor.chunk_left == 0) {
      cursor.chunk_left = lines_of(request.what, cursor.chunk_start);
      next_chunk(request.what, cursor);
      cursor.address = cursor.chunk_start;
    }
    if (++request.sent == request.lines) {
      port.requests.erase(port.requests.begin() + static_cast<std::ptrdiff_t>(i));
      for (std::size_t up = request.port;; up = ports_[up].parent) {
        --ports_[up].sending;
        if (up == 0) break;
      }
    }
    return true;
  }
  return false;
}

void DetailedDram::room() {
  account(false);
  if (refused_) send();
}

void DetailedDram::line_finished(std::uint32_t tag) {
  Request& request = requests_[tag];
  Port& port = ports_[request.port];
  totals_.bytes_written += request.bytes_per_line * request.written_share;
  totals_.bytes_read += request.bytes_per_line * (1 - request.written_share);
  unaccounted_ += request.bytes_per_line;
  const bool was_closed = port.under_way-- >= limits_.window;
  if (++request.finished == request.lines) {
    const Picoseconds when = std::max(request.earliest_end, context_.now() + limits_.fabric);
    if (when <= context_.now())
      end(tag);
    else
      context_.at(when, {label_.device, kEnd}, [this, tag] { end(tag); });
  }
  if (was_closed) send();
}

void DetailedDram::end(std::uint32_t tag) {
  Callback done = requests_[tag].done;
  free_.push_back(tag);
  done();
}

void DetailedDram::account(bool flush) {
  const Picoseconds now = context_.now();
  if (now - accounted_until_ < kAccountEvery && !flush) return;
  moved_.add(accounted_until_, now, unaccounted_);
  if (context_.tracing() && now > accounted_until_) context_.counter(track_, unaccounted_ / to_seconds(now - accounted_until_) * 1e-9);
  accounted_until_ = now;
  unaccounted_ = 0;
}

double DetailedDram::bytes_moved(Picoseconds begin, Picoseconds end) {
  account(true);
  return moved_.sum(begin, end);
}

double DetailedDram::peak_rate(Picoseconds begin, Picoseconds end) {
  account(true);
  return moved_.peak_rate(begin, end);
}

}  // namespace vitro::hw
