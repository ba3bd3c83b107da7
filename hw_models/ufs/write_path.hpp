// WritePath: what a flash device does with written data. It is acknowledged in the controller's memory, goes to the SLC
// buffer while that has room and straight to TLC after, is folded from SLC to TLC when the host is quiet, and free
// superblocks are regained by moving the valid sectors out of the emptiest one.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "hw_models/ufs/ftl.hpp"
#include "hw_models/ufs/nand.hpp"

namespace vitro::hw {

struct WriteSpec {
  std::uint32_t memory = 0;                // sectors of controller memory; at least one command
  Picoseconds program{0}, slc_program{0};  // tPROG per stripe
  Picoseconds quiet{0};                    // without commands before folding starts
  std::uint32_t reserve = 2;               // free TLC superblocks that only garbage collection may use
};

struct WriteTotals {
  std::uint64_t to_slc = 0, to_tlc = 0;     // sectors of the host
  std::uint64_t folded = 0, collected = 0;  // sectors moved
  std::uint64_t erased = 0;                 // superblocks
};

class WritePath final : public NandClient {
 public:
  WritePath(Context& context, std::uint16_t device, NandArray& nand, Ftl& ftl, const WriteSpec& spec);

  // Controller memory for `sectors`; `granted` runs at once or, first come first served, when there is room.
  void reserve(std::uint32_t sectors, std::function<void()> granted);
  void store(std::uint64_t first, std::uint32_t sectors);  // arrived in the memory reserved before
  bool holds(std::uint64_t sector) const { return held_.contains(sector); }

  void host_active();  // a command came
  void host_quiet();   // the last one ended
  const WriteTotals& totals() const { return totals_; }

  void sector_arrived(std::uint64_t, std::uint32_t) override {}
  void operation_done(std::uint64_t tag) override;

 private:
  enum class Use : std::uint8_t { host_program, move_read, move_program, erase };
  struct Batch {
    Use use = Use::host_program;
    std::vector<std::uint64_t> sectors;
  };
  struct Move {  // one superblock being emptied
    bool active = false, erasing = false;
    std::uint32_t victim = 0, next = 0;                 // first sector not looked at yet
    std::uint32_t reads = 0, programs = 0, erases = 0;  // in flight
    std::vector<std::uint64_t> gathered;
  };

  void pump();
  void program(Pool pool, std::vector<std::uint64_t> sectors, Use use);
  void start_moves();
  void move_on();
  bool gather();
  void write_gathered(bool all);
  void run(const NandOperation& operation, Batch batch);

  Context& context_;
  std::uint16_t device_;
  NandArray& nand_;
  Ftl& ftl_;
  WriteSpec spec_;
  std::uint32_t used_ = 0;
  std::deque<std::pair<std::uint32_t, std::function<void()>>> waiting_;
  std::deque<std::uint64_t> unplaced_;           // in memory, without a place in flash
  std::map<std::uint64_t, std::uint32_t> held_;  // sectors in memory and how often
  std::vector<Batch> batches_;
  std::vector<std::uint32_t> free_;
  Move move_;
  bool quiet_ = false;
  std::uint64_t quiet_since_ = 0;  // counts changes, so that an old timer is recognised
  WriteTotals totals_;
};

}  // namespace vitro::hw
