// What a run leaves behind: spans and counters over time, and the decisions in the order they were made.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "engine/base/units.hpp"

namespace vitro {

enum class TrackId : std::uint32_t {};

struct KernelCall;
class Lease;

// A request of storage that has ended.
struct TracedRequest {
  bool write = false;
  Bytes offset = 0, length = 0;  // in the file
  const Lease* into = nullptr;   // of a read: where its bytes are; null: nobody knows
  Bytes into_offset = 0;
};

// Tracks have the same names on both machines: "cpu0", "npu", "flash", "dram", "policy", "cache".
// Thread-safe on host: workers report their own spans.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual bool enabled() const = 0;                                          // false: callers may skip building names and arguments
  virtual TrackId track(std::string_view group, std::string_view name) = 0;  // the same pair gives the same id
  virtual void span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail = {}) = 0;
  virtual void counter(TrackId track, Picoseconds at, double value) = 0;

  // A span of a kernel call that has ended, called by its operator, and one of a request from its submission on. What the two have to do
  // with each other, such as that a kernel reads what a request brought, is for the sink to find out.
  virtual void kernel(TrackId track, Picoseconds begin, Picoseconds end, const KernelCall& call);
  virtual void request(TrackId track, Picoseconds submitted, Picoseconds end, const TracedRequest& request);

  // The decision log: loads, evictions, placements, splits, in plan order and without times, so that two machines
  // that decided alike have equal logs. `kind` is a word, `what` the subject ("blk.3.ffn_up 128+64"), `where` a unit
  // or region.
  virtual void decision(std::string_view kind, std::string_view what, std::string_view where) = 0;
};

// Discards everything.
class NullTrace final : public TraceSink {
 public:
  bool enabled() const override { return false; }
  TrackId track(std::string_view, std::string_view) override { return TrackId{}; }
  void span(TrackId, Picoseconds, Picoseconds, std::string_view, std::string_view) override {}
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view, std::string_view, std::string_view) override {}
};

}  // namespace vitro
