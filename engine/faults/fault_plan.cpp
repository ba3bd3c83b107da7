#include "engine/faults/fault_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

struct Kind {
  std::string_view name;
  FaultTarget target;
  bool harmless;
};

using enum FaultTarget;
// In the order of FaultKind.
constexpr std::array<Kind, kFaultKinds> kKinds{{{"read_error", read, false},
                                                {"short_read", read, false},
                                                {"corrupt_read", read, false},
                                                {"latency", read, true},
                                                {"stall", read, true},
                                                {"reorder", read, true},
                                                {"queue_full", read, true},
                                                {"storage_lost", read, false},
                                                {"write_error", write, false},
                                                {"no_space", write, false},
                                                {"launch_error", launch, false},
                                                {"slow_launch", launch, true},
                                                {"unit_dies", launch, false},
                                                {"unit_hangs", launch, false},
                                                {"garbage", launch, false},
                                                {"throttle", launch, true},
                                                {"graph_error", load, false},
                                                {"lease_error", lease, false},
                                                {"memory_pressure", lease, false}}};

constexpr std::int64_t kMost = std::int64_t{1} << 62;

const Kind& of(FaultKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

// What has begun goes on. Of answers few can be garbage: most launches have none.
bool lasts(FaultKind kind) {
  return kind == FaultKind::unit_dies || kind == FaultKind::unit_hangs || kind == FaultKind::throttle || kind == FaultKind::garbage;
}

FaultKind kind_named(const std::string& name) {
  const auto found = std::ranges::find(kKinds, name, &Kind::name);
  return static_cast<FaultKind>(found - kKinds.begin());
}

Picoseconds time_of(Reader& reader, std::string_view key) {
  return reader.has(key) ? from_seconds(reader.quantity(key, Dimension::time)) : Picoseconds(0);
}

Bytes bytes_of(Reader& reader, std::string_view key) {
  return reader.has(key) ? static_cast<Bytes>(reader.quantity(key, Dimension::bytes) + 0.5) : 0;
}

Fault read_fault(Reader& reader) {
  Fault fault;
  fault.kind = kind_named(reader.choice("fault", fault_names()));
  fault.at = static_cast<std::uint64_t>(reader.integer("at", 0, kMost, 0));
  const std::int64_t count = reader.integer("count", 0, kMost, lasts(fault.kind) ? 0 : 1);
  fault.count = count == 0 ? kFromThenOn : static_cast<std::uint64_t>(count);
  fault.delay = time_of(reader, "delay");
  fault.bytes = bytes_of(reader, "bytes");
  fault.unit = reader.text("unit", "");
  reader.finish();
  return fault;
}

FaultPlan read_drawn(Reader& reader, std::uint64_t seed) {
  FaultDraw draw;
  draw.seed = seed;
  draw.faults = static_cast<std::uint32_t>(reader.integer("draw", 1, 1'000'000));
  draw.among.fill(static_cast<std::uint64_t>(reader.integer("within", 1, kMost, 1000)));
  draw.delay = reader.has("delay") ? time_of(reader, "delay") : Picoseconds(1'000'000'000);
  draw.bytes = reader.has("bytes") ? bytes_of(reader, "bytes") : MiB;
  if (reader.has("kinds")) {
    for (const Node& name : reader.list("kinds")) {
      const std::vector<std::string> names = fault_names();
      if (!name.is_scalar() || std::ranges::find(names, name.text()) == names.end()) {
        fail_at(name.origin(), reader.name_of("kinds"), fmt::format("expected a list of some of: {}", fmt::join(names, ", ")));
      }
      draw.kinds.push_back(kind_named(name.text()));
    }
  }
  if (reader.has("units")) {
    for (const Node& name : reader.list("units")) draw.units.push_back(name.is_scalar() ? name.text() : "");
  }
  return draw_faults(draw);
}

}  // namespace

std::string_view to_string(FaultTarget target) {
  constexpr std::array<std::string_view, kFaultTargets> kNames{"read", "write", "launch", "load", "lease"};
  return kNames[static_cast<std::size_t>(target)];
}
std::string_view to_string(FaultKind kind) { return of(kind).name; }
FaultTarget target_of(FaultKind kind) { return of(kind).target; }
bool is_harmless(FaultKind kind) { return of(kind).harmless; }

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

FaultPlan draw_faults(const FaultDraw& draw) {
  Rng rng(mix(draw.seed, {0x6661756c74}));
  std::vector<FaultKind> kinds;
  for (std::size_t i = 0; i < kFaultKinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    const bool wanted = draw.kinds.empty() || std::ranges::find(draw.kinds, kind) != draw.kinds.end();
    if (wanted && draw.among[static_cast<std::size_t>(target_of(kind))] > 0) kinds.push_back(kind);
  }
  FaultPlan plan;
  plan.seed = draw.seed;
  while (!kinds.empty() && plan.faults.size() < draw.faults) {
    Fault fault;
    fault.kind = kinds[rng.below(kinds.size())];
    fault.at = rng.below(draw.among[static_cast<std::size_t>(target_of(fault.kind))]);
    fault.count = lasts(fault.kind) ? kFromThenOn : rng.below(2) == 0 ? 1 : 1 + rng.below(20);
    const auto most_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(draw.delay / std::chrono::nanoseconds(1), 1));
    fault.delay = std::chrono::nanoseconds(1 + static_cast<std::int64_t>(rng.below(most_ns)));  // whole ones, which a file states exactly
    fault.bytes = rng.below(std::max<Bytes>(draw.bytes, 1));
    if (!draw.units.empty() && (target_of(fault.kind) == launch || target_of(fault.kind) == load)) {
      fault.unit = draw.units[rng.below(draw.units.size())];
    }
    plan.faults.push_back(std::move(fault));
  }
  return plan;
}

FaultPlan read_faults(Reader reader) {
  FaultPlan plan;
  const auto seed = static_cast<std::uint64_t>(reader.integer("seed", 0, kMost, 0));
  if (reader.has("draw")) {
    plan = read_drawn(reader, seed);
  } else {
    for (Reader& entry : reader.maps("entries")) plan.faults.push_back(read_fault(entry));
  }
  plan.seed = seed;
  plan.checksums = reader.boolean("checksums", true);
  reader.finish();
  return plan;
}

std::string to_json(const FaultPlan& plan) {
  std::vector<Node> entries;
  for (const Fault& fault : plan.faults) {
    std::vector<Node::Entry> entry{{"fault", Node::scalar(std::string(to_string(fault.kind)), {}, true)},
                                   {"at", Node::scalar(fmt::format("{}", fault.at))}};
    entry.emplace_back("count", Node::scalar(fmt::format("{}", fault.count == kFromThenOn ? 0 : fault.count)));
    const std::string delay = fmt::format("{} ns", fault.delay / std::chrono::nanoseconds(1));
    if (fault.delay.count() > 0) entry.emplace_back("delay", Node::scalar(delay, {}, true));
    if (fault.bytes > 0) entry.emplace_back("bytes", Node::scalar(fmt::format("{} B", fault.bytes), {}, true));
    if (!fault.unit.empty()) entry.emplace_back("unit", Node::scalar(fault.unit, {}, true));
    entries.push_back(Node::map(std::move(entry)));
  }
  return Node::map({{"seed", Node::scalar(fmt::format("{}", plan.seed))},
                    {"checksums", Node::scalar(plan.checksums ? "true" : "false")},
                    {"entries", Node::list(std::move(entries))}})
      .to_json();
}

}  // namespace vitro
