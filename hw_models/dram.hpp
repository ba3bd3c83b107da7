// DramModel: memory as its agents see it. An agent reaches it through a port; ports form a tree (core, cluster, CPU),
// and a bandwidth cap belongs to a port, at every fidelity.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/base/units.hpp"
#include "hw_models/callback.hpp"

namespace vitro::hw {

enum class PortId : std::uint16_t {};
inline constexpr PortId kMemoryController{0};  // the root of the tree

struct PortSpec {
  std::string_view name;
  BytesPerSecond cap;
  PortId parent = kMemoryController;
  double weight = 1;  // its share against its siblings when the parent is saturated
};

inline constexpr std::uint64_t kNextAddress = ~std::uint64_t{0};

struct DramRequest {
  PortId port{};
  Bytes length = 0;
  Bytes written = 0;    // of `length`; 0: a read. Reads and writes mix evenly; the written bytes lie behind the others
  Picoseconds pace{0};  // the agent itself can not take the bytes in less time than this (it computes on them)
  // Where the bytes lie. Whoever does not say reads on where its port left off.
  std::uint64_t address = kNextAddress;
  Bytes chunk = 0;   // bytes that lie together; 0: all of them
  Bytes stride = 0;  // from the start of one chunk to the next; 0: chunks lie anywhere, drawn at random
};

struct DramTotals {
  double bytes_read = 0, bytes_written = 0;
};

class DramModel {
 public:
  virtual ~DramModel() = default;
  virtual PortId add_port(const PortSpec& spec) = 0;  // Requires: before the first request
  // `done` runs as an event when the last byte has moved; at once, as an event, for length 0 and pace 0.
  virtual void submit(const DramRequest& request, Callback done) = 0;
  virtual DramTotals totals() = 0;
  // Bytes moved in a window that has passed; the peak is of means over one millisecond, bytes per second.
  virtual double bytes_moved(Picoseconds begin, Picoseconds end) = 0;
  virtual double peak_rate(Picoseconds begin, Picoseconds end) = 0;
};

// Hears what a memory model writes down, when it does.
class DramListener {
 public:
  virtual ~DramListener() = default;
  virtual void rate(double bytes_per_second) = 0;       // of all requests together, from now on
  virtual void moved(double read, double written) = 0;  // bytes, by a request that ends now
};

// What a DRAM model offers beside DramModel whose times do not depend on requests that have ended.
class ReplayableDram {
 public:
  virtual ~ReplayableDram() = default;
  virtual void listen(DramListener* listener) = 0;  // null: nobody does any more
  // What it would write down now, had there been requests as before. Requires: none is under way.
  virtual void set_rate(double bytes_per_second) = 0;
  virtual void count(double read, double written) = 0;
};

}  // namespace vitro::hw
