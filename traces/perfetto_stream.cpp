#include "traces/perfetto_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <utility>

#include "engine/base/check.hpp"
#include "traces/json_text.hpp"

namespace vitro {
namespace {

constexpr std::size_t kPart = 1 << 20;  // bytes that are written together
constexpr std::size_t kRemembered = 1024;  // spans of a lane; one that encloses more goes to a lane of its own
constexpr std::uint64_t kSequence = 1;  // all packets are of one writer
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;

// Numbers of fields: https://github.com/google/perfetto, protos/perfetto/trace.
namespace packet_field {
constexpr std::uint32_t timestamp = 8, sequence = 10, track_event = 11, interned = 12, flags = 13, descriptor = 60;
}
namespace event_field {
constexpr std::uint32_t annotations = 4, type = 9, name_iid = 10, track = 11, value = 44, flows = 47, ending_flows = 48;
}
namespace descriptor_field {
constexpr std::uint32_t uuid = 1, name = 2, process = 3, parent = 5, counter = 8;
}
enum EventType : std::uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };

// Protocol buffers' wire format: fields are added to a message's bytes.
void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void add(std::string& out, std::uint32_t field, std::uint64_t value) {
  add_varint(out, std::uint64_t{field} << 3);
  add_varint(out, value);
}
void add(std::string& out, std::uint32_t field, std::string_view bytes) {  // a text or a message
  add_varint(out, std::uint64_t{field} << 3 | 2);
  add_varint(out, bytes.size());
  out += bytes;
}
void add_fixed(std::string& out, std::uint32_t field, std::uint64_t bits) {
  add_varint(out, std::uint64_t{field} << 3 | 1);
  for (int byte = 0; byte < 8; ++byte) out += static_cast<char>(bits >> (8 * byte));
}
void add(std::string& out, std::uint32_t field, double value) { add_fixed(out, field, std::bit_cast<std::uint64_t>(value)); }

std::uint64_t nanoseconds(Picoseconds time) {
  VITRO_CHECK(time.count() >= 0, "a trace begins at zero");
  return static_cast<std::uint64_t>(time.count()) / 1000;
}

// Perfetto refuses text that is no UTF-8. -> with a mark in place of each byte that is none
std::string valid_text(std::string_view text) {
  if (std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) return std::string(text);
  return nlohmann::json::parse(json_text(text)).get<std::string>();
}

}  // namespace

PerfettoStream::PerfettoStream(std::string process, std::string folder, bool flows, std::size_t decisions)
    : TraceFile(flows), process_(std::move(process)), folder_(std::move(folder)), decisions_(decisions) {}

TrackId PerfettoStream::track(std::string_view group, std::string_view name) {
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = track_ids_.try_emplace({std::string(group), std::string(name)}, TrackId(tracks_.size()));
  if (is_new) tracks_.push_back({std::string(group), std::string(name), {}, 0});
  return entry->second;
}

std::uint64_t PerfettoStream::new_track(const Track& track, std::string_view name, bool counts) {
  const auto [group, is_new] = groups_.try_emplace(track.group, last_uuid_ + 1);
  if (is_new) {
    std::string process, descriptor, body;
    add(process, 1, std::uint64_t{groups_.size()});
    add(process, 6, valid_text(process_ + ": " + track.group));
    add(descriptor, descriptor_field::uuid, ++last_uuid_);
    add(descriptor, descriptor_field::process, process);
    add(body, packet_field::descriptor, descriptor);
    packet(body);
  }
  std::string descriptor, body;
  add(descriptor, descriptor_field::uuid, ++last_uuid_);
  add(descriptor, descriptor_field::parent, group->second);
  add(descriptor, descriptor_field::name, valid_text(name));
  if (counts) add(descriptor, descriptor_field::counter, std::string_view());
  add(body, packet_field::descriptor, descriptor);
  packet(body);
  return last_uuid_;
}

// Spans of a lane that a new one encloses matter no longer.
std::uint64_t PerfettoStream::lane_for(Track& track, Slice slice) {
  for (Lane& lane : track.lanes) {
    std::size_t kept = lane.slices.size();
    while (kept > 0 && lane.slices[kept - 1].begin_ns > slice.begin_ns && lane.slices[kept - 1].end_ns <= slice.end_ns) --kept;
    if (slice.begin_ns < (kept > 0 ? lane.slices[kept - 1].end_ns : lane.forgotten_ns)) continue;
    lane.slices.resize(kept);
    lane.slices.push_back(slice);
    if (lane.slices.size() > kRemembered) {
      lane.forgotten_ns = lane.slices.front().end_ns;
      lane.slices.pop_front();
    }
    return lane.uuid;
  }
  const std::size_t number = track.lanes.size() + 1;
  const std::string name = number == 1 ? track.name : fmt::format("{} ({})", track.name, number);
  track.lanes.push_back({new_track(track, name, false), 0, {slice}});
  return track.lanes.back().uuid;
}

// A name's number; one that is new is told with the packet that first uses it.
std::uint64_t PerfettoStream::name_id(std::string_view name, std::string& interned) {
  const auto [entry, is_new] = names_.try_emplace(std::string(name), names_.size() + 1);
  if (is_new) {
    std::string event_name;
    add(event_name, 1, entry->second);
    add(event_name, 2, valid_text(name));
    add(interned, 2, event_name);
  }
  return entry->second;
}

void PerfettoStream::add_span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail,
                              Flows flows) {
  VITRO_CHECK(begin <= end, "a span that ends before it begins");
  const std::scoped_lock lock(mutex_);
  const Slice slice{nanoseconds(begin), nanoseconds(end)};
  if (flows.from && !flows.ids.empty()) begin_flows(tracks_[static_cast<std::size_t>(*flows.from)], slice.begin_ns, flows.ids);
  const std::uint64_t uuid = lane_for(tracks_[static_cast<std::size_t>(track)], slice);
  std::string interned, event, body;
  add(event, event_field::type, std::uint64_t{kBegin});
  add(event, event_field::track, uuid);
  add(event, event_field::name_iid, name_id(name, interned));
  if (!detail.empty()) {
    std::string annotation;
    add(annotation, 10, std::string_view("detail"));
    add(annotation, 6, valid_text(detail));
    add(event, event_field::annotations, annotation);
  }
  for (const std::uint64_t flow : flows.ids) add_fixed(event, flows.from ? event_field::flows : event_field::ending_flows, flow);
  add(body, packet_field::timestamp, slice.begin_ns);
  add(body, packet_field::track_event, event);
  if (!interned.empty()) add(body, packet_field::interned, interned);
  packet(body);
  event.clear(), body.clear();
  add(event, event_field::type, std::uint64_t{kEnd});
  add(event, event_field::track, uuid);
  add(body, packet_field::timestamp, slice.end_ns);
  add(body, packet_field::track_event, event);
  packet(body);
}

// A moment within what the policy does, since a span of that has a beginning of its own.
void PerfettoStream::begin_flows(Track& track, std::uint64_t at_ns, std::span<const std::uint64_t> flows) {
  if (track.lanes.empty()) track.lanes.push_back({new_track(track, track.name, false), 0, {}});
  std::string interned, event, body;
  add(event, event_field::type, std::uint64_t{kInstant});
  add(event, event_field::track, track.lanes.front().uuid);
  add(event, event_field::name_iid, name_id("submit read", interned));
  for (const std::uint64_t flow : flows) add_fixed(event, event_field::flows, flow);
  add(body, packet_field::timestamp, at_ns);
  add(body, packet_field::track_event, event);
  if (!interned.empty()) add(body, packet_field::interned, interned);
  packet(body);
}

void PerfettoStream::counter(TrackId id, Picoseconds at, double value) {
  const std::scoped_lock lock(mutex_);
  Track& track = tracks_[static_cast<std::size_t>(id)];
  if (track.counter == 0) track.counter = new_track(track, track.name, true);
  std::string event, body;
  add(event, event_field::type, std::uint64_t{kCounter});
  add(event, event_field::track, track.counter);
  add(event, event_field::value, value);
  add(body, packet_field::timestamp, nanoseconds(at));
  add(body, packet_field::track_event, event);
  packet(body);
}

void PerfettoStream::decision(std::string_view kind, std::string_view what, std::string_view where) {
  const std::scoped_lock lock(mutex_);
  decisions_.add(kind, what, where);
}

// `body` is a TracePacket's, but for what all have.
void PerfettoStream::packet(const std::string& body) {
  std::string whole = body;
  add(whole, packet_field::sequence, kSequence);
  add(whole, packet_field::flags, std::exchange(began_, true) ? kNeedsState : kStateCleared);
  add(part_, 1, whole);  // Trace.packet
  if (part_.size() < kPart) return;
  try {
    if (!failed_) write_part();
  } catch (...) {  // not into whoever traces, who may be in a destructor
    failed_ = std::current_exception();
  }
  part_.clear();
}

void PerfettoStream::write_part() {
  if (!file_) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw RunError(fmt::format("{}: the folder can not be made: {}", folder_, error.message()));
    file_.emplace(folder_ + "/trace.pftrace");
  }
  file_->write(part_);
  part_.clear();
}

void PerfettoStream::finish(const std::string& folder) {
  const std::scoped_lock lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
  write_part();
  file_->commit();
  decisions_.write(folder + "/decisions.jsonl");
}

}  // namespace vitro
