// ReadAhead: recognises sequential streams by their addresses and keeps a window of sectors ahead of each. A stream is
// believed at the third read in a row: with fewer, random reads of large blocks would meet old ends by chance.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/base/check.hpp"

namespace vitro::hw {

// Addresses are sector numbers.
class ReadAhead {
 public:
  struct Sector {
    bool arrived = false, wanted = false;  // wanted: `command` waits for it
    std::uint32_t command = 0;
  };
  struct Stream {
    std::uint64_t id = 0;       // unique; 0 is no stream
    std::uint64_t next = 0;     // where the host's next read is expected
    std::uint64_t base = 0;     // of window[0]
    std::uint64_t used = 0;     // for replacement
    std::uint32_t reads = 0;    // in a row
    std::deque<Sector> window;  // requested from flash, and not yet both here and asked for
    std::uint64_t end() const { return base + window.size(); }
  };

  ReadAhead(std::uint32_t streams, std::uint64_t depth) : streams_(streams), depth_(depth) {}

  // A read that goes on where a stream is expected to; null for any other, which may become a stream.
  Stream* follow(std::uint64_t first, std::uint32_t count) {
    if (depth_ == 0) return nullptr;
    for (Stream& stream : streams_) {
      if (stream.id == 0 || stream.next != first) continue;
      stream.next += count;
      stream.used = ++clock_;
      if (++stream.reads < kBelieved) return nullptr;
      if (stream.window.empty()) stream.base = first;
      return &stream;
    }
    Stream* oldest = nullptr;
    for (Stream& stream : streams_) {
      if (!waited_for(stream) && (oldest == nullptr || stream.used < oldest->used)) oldest = &stream;
    }
    if (oldest != nullptr) *oldest = {++ids_, first + count, 0, ++clock_, 1, {}};
    return nullptr;
  }

  Stream* find(std::uint64_t id) {
    for (Stream& stream : streams_) {
      if (stream.id == id) return &stream;
    }
    return nullptr;
  }

  // Makes the window reach past what the host will ask for; `fetch(first, count)` is called for each stripe to read.
  template <class Fetch>
  void extend(Stream& stream, std::uint32_t stripe, Fetch fetch) {
    while (stream.end() < stream.next + depth_) {
      const std::uint64_t first = stream.end();
      const std::uint64_t count = stripe - first % stripe;
      stream.window.resize(stream.window.size() + count);
      fetch(first, static_cast<std::uint32_t>(count));
    }
  }

  // The host asks for a sector of the window. True when it is here; else `command` waits for it.
  bool take(Stream& stream, std::uint64_t sector, std::uint32_t command) {
    Sector& entry = stream.window.at(sector - stream.base);
    entry.wanted = true;
    entry.command = command;
    const bool here = entry.arrived;
    trim(stream);
    return here;
  }

  // A sector of the window came from flash; the command that waits for it, if one does.
  std::optional<std::uint32_t> arrived(Stream& stream, std::uint64_t sector) {
    Sector& entry = stream.window.at(sector - stream.base);
    entry.arrived = true;
    const std::optional<std::uint32_t> command = entry.wanted ? std::optional(entry.command) : std::nullopt;
    trim(stream);
    return command;
  }

 private:
  static constexpr std::uint32_t kBelieved = 3;

  static bool waited_for(const Stream& stream) {
    for (const Sector& sector : stream.window) {
      if (sector.wanted) return true;
    }
    return false;
  }
  static void trim(Stream& stream) {
    while (!stream.window.empty() && stream.window.front().arrived && stream.window.front().wanted) {
      stream.window.pop_front();
      ++stream.base;
    }
  }

  std::vector<Stream> streams_;
  std::uint64_t depth_;
  std::uint64_t clock_ = 0, ids_ = 0;
};

}  // namespace vitro::hw
