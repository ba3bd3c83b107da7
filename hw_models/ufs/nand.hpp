// NandArray: channels x dies x planes. A die does one operation at a time; one operation covers one page per plane. A read
// senses the pages (tR), then its sectors cross the channel to the controller; a program takes its sectors first, then tPROG.
#pragma once
#include <cstdint>
#include <deque>
#include <set>
#include <tuple>
#include <vector>

#include "hw_models/context.hpp"

namespace vitro::hw {

struct NandSpec {
  std::uint32_t channels = 1, dies_per_channel = 1, planes = 1;
  Bytes page = 16 * KiB;
  Picoseconds read{0}, erase{0};  // tR, tBERS
  BytesPerSecond channel_rate;
  double retry_probability = 0;  // that a read has to sense again with shifted thresholds
  Picoseconds retry{0};          // what that takes

  std::uint32_t dies() const { return channels * dies_per_channel; }
  std::uint32_t stripe() const { return static_cast<std::uint32_t>(planes * page / kPageSize); }  // sectors of one die operation
};

// Who asked for an operation. A sector is 4 KiB.
class NandClient {
 public:
  virtual ~NandClient() = default;
  virtual void sector_arrived(std::uint64_t tag, std::uint32_t index) = 0;  // reads: number `index` of the operation
  virtual void operation_done(std::uint64_t tag) = 0;                       // after its last sector
};

struct NandOperation {
  enum class Kind : std::uint8_t { read, program, erase };
  Kind kind = Kind::read;
  std::uint32_t die = 0, sectors = 1;  // at most stripe()
  Picoseconds program{0};              // tPROG of the cell mode
  std::uint64_t order = 0;             // the channel serves the lowest first
  NandClient* client = nullptr;
  std::uint64_t tag = 0;
};

class NandArray {
 public:
  NandArray(Context& context, std::uint16_t device, const NandSpec& spec);

  const NandSpec& spec() const { return spec_; }
  // Reads overtake programs and erases that wait for the same die; one that runs is not suspended.
  void submit(const NandOperation& operation);

 private:
  struct Die {
    std::deque<std::uint32_t> reads, others;  // operations by slot
    bool busy = false;
    std::uint64_t sensed = 0;
  };
  struct Active {
    NandOperation operation;
    std::uint32_t moved = 0;
  };
  struct Channel {
    std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>> waiting;  // (order, arrival, slot)
    bool busy = false;
  };

  void begin_next(std::uint32_t die);
  void ask_channel(std::uint32_t slot);
  void pump(std::uint32_t channel);
  void sector_moved(std::uint32_t slot);
  void finish(std::uint32_t slot);
  Picoseconds sense_time(std::uint32_t die);

  Context& context_;
  std::uint16_t device_;
  NandSpec spec_;
  Picoseconds sector_time_;
  std::uint64_t seed_;
  std::vector<Die> dies_;
  std::vector<Channel> channels_;
  std::vector<Active> active_;
  std::vector<std::uint32_t> free_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace vitro::hw
