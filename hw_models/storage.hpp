// StorageModel: a flash device behind one driver queue.
#pragma once
#include <cstdint>
#include <span>

#include "engine/base/units.hpp"
#include "hw_models/callback.hpp"

namespace vitro::hw {

struct IoRequest {
  std::uint64_t address = 0;  // on the device
  Bytes length = 0;           // at most limits().max_transfer
  bool write = false;
  bool sequential = false;
  std::uint16_t issuer = 0;  // the core that issued it
};

// One of several reads of one issuer that are wanted together, and when it was issued: now or before.
struct TimedRead {
  IoRequest request;
  Picoseconds issued{0};
};

struct StorageLimits {
  Bytes max_transfer = 0;
  std::uint32_t queue_depth = 0;
};

// Bytes that the host wrote, and bytes that cells were or will be programmed with for it: data in a one-bit buffer moves once more.
struct FlashWrites {
  double host = 0, programmed = 0;
};

class StorageModel {
 public:
  virtual ~StorageModel() = default;
  virtual const StorageLimits& limits() const = 0;
  // What issuing and completing one command costs the core that does it.
  virtual Picoseconds issue_time(Hertz core_clock) const = 0;
  // Enters the queue now. `done` runs as an event when the data is in DRAM.
  virtual void submit(const IoRequest& request, Callback done) = 0;
  // Most reads that submit_reads() takes; 0: it is not to be called, and each read is submitted by itself.
  virtual std::uint32_t most_together() const { return 0; }
  // Reads that are wanted together: all enter the queue, and `done` runs once, when the last one's data is in DRAM. What happens to each
  // of them until then is worked out now. Requires: 1 to most_together() reads of one issuer, by time of issue.
  virtual void submit_reads(std::span<const TimedRead>, Callback) {}
  virtual double bytes_moved(Picoseconds begin, Picoseconds end) = 0;
  virtual FlashWrites writes() const { return {}; }  // nothing programmed: the model does not know
};

}  // namespace vitro::hw
