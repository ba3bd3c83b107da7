// BankState: the banks of one channel and what the timing constraints allow when. Knows no requests and no clock: cycles in,
// cycles out.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "hw_models/dram/address_map.hpp"
#include "hw_models/dram/timing.hpp"

namespace vitro::hw {

enum class DramCommand : std::uint8_t { activate1, activate2, read, write, precharge, precharge_all, refresh_all, refresh_bank };
inline constexpr std::size_t kDramCommands = 8;

// A law: after `before` within `scope`, `after` has to wait `cycles`; with window 4, after the fourth last one.
struct DramConstraint {
  enum class Scope : std::uint8_t { channel, rank, other_ranks, group, bank } scope;
  DramCommand before, after;
  Cycle cycles;
  std::uint32_t window = 1;
};
std::vector<DramConstraint> dram_constraints(const DramTiming& timing);

class BankState {
 public:
  static constexpr std::int32_t kClosed = -1;

  BankState(const DramTiming& timing, const DramOrganisation& organisation);

  // Banks of a channel are numbered rank, group, bank.
  std::uint32_t bank_of(const DramLocation& at) const { return (at.rank * groups_ + at.group) * banks_ + at.bank; }
  std::uint32_t banks() const { return static_cast<std::uint32_t>(rows_.size()); }
  std::uint32_t banks_per_rank() const { return groups_ * banks_; }
  std::int32_t open_row(std::uint32_t bank) const { return rows_[bank]; }
  bool activating(std::uint32_t bank) const { return activating_[bank]; }  // between ACT-1 and ACT-2
  bool all_closed(std::uint32_t rank) const;

  // First cycle in which no constraint forbids `command` to `bank`; its rank counts for all-bank commands. The command bus is
  // the caller's.
  Cycle earliest(DramCommand command, std::uint32_t bank) const {
    const auto c = static_cast<std::size_t>(command);
    const Nodes& n = nodes_[bank];
    const Cycle a = std::max(ready_[0][c], ready_[n.rank][c]);
    if (command >= DramCommand::precharge_all && command != DramCommand::refresh_bank) return a;
    return std::max(a, std::max(ready_[n.group][c], ready_[n.bank][c]));
  }
  // Requires: cycle >= earliest(command, bank), and a state that fits: rows open and close in turn.
  void issue(DramCommand command, std::uint32_t bank, std::int32_t row, Cycle cycle);

 private:
  struct Nodes {
    std::uint32_t rank, group, bank;  // rows of ready_; 0 is the channel
  };
  struct Windowed {  // the last issue cycles of a command within a rank, oldest first
    std::array<Cycle, 4> last;
  };
  using Ready = std::array<Cycle, kDramCommands>;

  void constrain(const DramConstraint& law, std::uint32_t bank, Cycle cycle);
  void change_state(DramCommand command, std::uint32_t bank, std::int32_t row);

  std::uint32_t ranks_, groups_, banks_;
  std::array<std::vector<DramConstraint>, kDramCommands> laws_;  // by `before`
  std::vector<Ready> ready_;
  std::vector<Nodes> nodes_;
  std::vector<std::int32_t> rows_;
  std::vector<bool> activating_;
  std::vector<Windowed> activates_;  // by rank
};

}  // namespace vitro::hw
