// DramController: one channel. Takes lines, issues at most one command per cycle, says when each line's last beat is on the bus.
// Works in cycles and jumps from one command to the next; it has no clock of its own.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "hw_models/dram/bank_state.hpp"

namespace vitro::hw {

enum class RefreshPolicy : std::uint8_t { none, all_bank, per_bank };

struct ControllerPolicy {
  std::uint32_t queue = 32;                 // entries of the read queue, and of the write queue
  double drain_from = 0.8, drain_to = 0.2;  // writes are served from this fill of their queue down to that one
  RefreshPolicy refresh = RefreshPolicy::per_bank;
};

struct ControllerCounts {
  std::uint64_t reads = 0, writes = 0, hits = 0, activates = 0, precharges = 0, refreshes = 0;
  std::uint64_t read_cycles = 0;  // from the arrival in the queue to the last beat, summed over reads
};

// Open rows; FR-FCFS: of the commands that are ready, the one of the oldest line, and no row is closed over an older line that
// hits it. A row that was opened for a line stays open until that line was served. A refresh that is due holds back new rows
// of lines until it was issued.
class DramController {
 public:
  struct Finished {
    std::uint32_t tag;
    bool write;
    Cycle cycle;  // of the last beat
  };

  DramController(const DramTiming& timing, const DramOrganisation& organisation, const ControllerPolicy& policy);

  bool has_room(bool write) const { return (write ? writes_ : reads_).size() < policy_.queue; }
  bool idle() const { return reads_.empty() && writes_.empty() && opened_.empty() && maintenance_.empty(); }
  // The line can be served from the next cycle on. Requires: has_room(write); `now` does not run back.
  void push(const DramLocation& at, bool write, std::uint32_t tag, Cycle now);
  // The next cycle in which step() has something to do; kNever when idle. An idle channel still gets its refreshes: they are
  // made up for at the next arrival.
  Cycle next() const { return next_; }
  // Requires: now == next(). Issues one command at most; returns true and fills `finished` if it served a line.
  bool step(Cycle now, Finished& finished);

  const ControllerCounts& counts() const { return counts_; }

 private:
  struct Line {
    std::uint32_t bank = 0;
    std::int32_t row = 0;
    std::uint32_t tag = 0;
    bool write = false;
    Cycle arrival = 0;
    std::uint64_t order = 0;
  };
  struct Choice {
    // Of what is ready in the same cycle, the first of these goes first, and in it the oldest.
    enum class Rank : std::uint8_t { overdue, opened, maintenance, queued, activation, nothing } rank = Rank::nothing;
    DramCommand command{};
    Cycle cycle = kNever;
    std::uint64_t order = 0;
    std::size_t index = 0;
  };
  struct Activation {
    std::uint32_t bank;
    Cycle deadline;  // of ACT-2
  };
  // Of the lines that want the same of a bank only the oldest can be next: in which plan it was seen.
  struct BankInPlan {
    std::uint64_t hit = 0, miss = 0;
    std::uint32_t opened = 0;  // lines whose row was opened for them and that are not served yet
  };
  struct Maintenance {
    DramCommand command;
    std::uint32_t bank;
  };

  void plan(Cycle from);  // decides the next command and its cycle
  void consider_activation(Cycle from);
  void consider_opened(Cycle from);
  void consider_maintenance(Cycle from);
  void consider_queue(Cycle from);
  void consider(const Line& line, std::size_t index, Cycle from) {
    if (first_of_its_kind(line)) consider_first(line, index, from);
  }
  bool first_of_its_kind(const Line& line) {
    BankInPlan& bank = by_bank_[line.bank];
    std::uint64_t& seen = banks_.open_row(line.bank) == line.row ? bank.hit : bank.miss;
    return std::exchange(seen, plans_) != plans_;
  }
  void consider_first(const Line& line, std::size_t index, Cycle from);
  void offer(Choice::Rank rank, DramCommand command, Cycle cycle, std::uint64_t order, std::size_t index);
  std::vector<Line>& served() { return draining_ ? writes_ : reads_; }

  void issue(Cycle now, Finished* finished);
  void serve(std::vector<Line>& queue, Cycle now, Finished* finished);
  void set_mode();
  void queue_refresh();
  void catch_up(Cycle now);

  DramTiming timing_;
  ControllerPolicy policy_;
  BankState banks_;
  std::uint32_t ranks_;

  std::vector<Line> reads_, writes_;  // by age
  std::vector<Line> opened_;          // whose row was opened for them
  std::optional<Activation> activation_;
  std::vector<Maintenance> maintenance_;
  bool draining_ = false;

  Choice choice_;
  Cycle next_ = kNever;
  Cycle bus_free_ = 0;
  Cycle refresh_interval_ = kNever, next_refresh_ = kNever;
  std::uint32_t next_bank_ = 0;  // to refresh
  std::uint64_t order_ = 0;
  std::vector<BankInPlan> by_bank_;
  std::uint64_t plans_ = 0;
  ControllerCounts counts_;
};

}  // namespace vitro::hw
