#include "hw_models/dram/bank_state.hpp"

#include <algorithm>

#include "engine/base/check.hpp"

namespace vitro::hw {
namespace {

using Scope = DramConstraint::Scope;
using C = DramCommand;

// Clocks between the last beat of a read and the first of a write on the same pins.
constexpr Cycle kBusTurn = 2;
constexpr Cycle kLongAgo = -(Cycle{1} << 40);

}  // namespace

std::vector<DramConstraint> dram_constraints(const DramTiming& t) {
  const Cycle read_to_write = t.cl + kBusTurn - t.cwl;
  return {
      // The data bus, and the column path that a bank group keeps busy for two bursts.
      {Scope::channel, C::read, C::read, t.bl_min},
      {Scope::channel, C::write, C::write, t.bl_min},
      {Scope::rank, C::read, C::read, t.ccds},
      {Scope::rank, C::write, C::write, t.ccds},
      {Scope::group, C::read, C::read, t.ccdl},
      {Scope::group, C::write, C::write, t.ccdl},
      {Scope::rank, C::read, C::write, read_to_write + t.bl_min},
      {Scope::group, C::read, C::write, read_to_write + t.bl_max},
      {Scope::rank, C::write, C::read, t.cwl + t.bl_min + t.wtrs},
      {Scope::group, C::write, C::read, t.cwl + t.bl_max + t.wtrl},
      {Scope::other_ranks, C::read, C::read, t.bl_min + t.cs},
      {Scope::other_ranks, C::write, C::write, t.bl_min + t.cs},
      {Scope::other_ranks, C::read, C::write, t.cl + t.bl_min + t.cs - t.cwl},
      {Scope::other_ranks, C::write, C::read, std::max<Cycle>(1, t.cwl + t.bl_min + t.cs - t.cl)},
      // Rows.
      {Scope::rank, C::activate1, C::activate1, t.rrd},
      {Scope::rank, C::activate1, C::activate1, t.faw, 4},
      {Scope::bank, C::activate1, C::activate1, t.rc},
      {Scope::bank, C::activate1, C::activate2, 1},
      {Scope::bank, C::activate1, C::read, t.rcd},
      {Scope::bank, C::activate1, C::write, t.rcd},
      {Scope::bank, C::activate1, C::precharge, t.ras},
      {Scope::rank, C::activate1, C::precharge_all, t.ras},
      {Scope::bank, C::read, C::precharge, t.rtp},
      {Scope::rank, C::read, C::precharge_all, t.rtp},
      {Scope::bank, C::write, C::precharge, t.write_to_precharge()},
      {Scope::rank, C::write, C::precharge_all, t.write_to_precharge()},
      {Scope::bank, C::precharge, C::activate1, t.rp},
      {Scope::rank, C::precharge_all, C::activate1, t.rpab},
      {Scope::rank, C::precharge, C::precharge, t.ppd},
      {Scope::rank, C::precharge, C::precharge_all, t.ppd},
      {Scope::rank, C::precharge_all, C::precharge, t.ppd},
      // Refresh. No tpbR2pbR is public: a rank starts no second bank before the first one ended.
      {Scope::rank, C::activate1, C::refresh_all, t.rc},
      {Scope::rank, C::precharge, C::refresh_all, t.rp},
      {Scope::rank, C::precharge_all, C::refresh_all, t.rpab},
      {Scope::rank, C::refresh_all, C::activate1, t.rfc_ab},
      {Scope::rank, C::refresh_all, C::refresh_all, t.rfc_ab},
      {Scope::rank, C::refresh_all, C::refresh_bank, t.rfc_ab},
      {Scope::bank, C::activate1, C::refresh_bank, t.rc},
      {Scope::bank, C::precharge, C::refresh_bank, t.rp},
      {Scope::rank, C::precharge_all, C::refresh_bank, t.rpab},
      {Scope::bank, C::refresh_bank, C::activate1, t.rfc_pb},
      {Scope::rank, C::refresh_bank, C::activate1, t.pbr2act},
      {Scope::rank, C::refresh_bank, C::refresh_bank, t.rfc_pb},
      {Scope::rank, C::refresh_bank, C::refresh_all, t.rfc_pb},
  };
}

BankState::BankState(const DramTiming& timing, const DramOrganisation& org) : ranks_(org.ranks), groups_(org.groups), banks_(org.banks) {
  for (const DramConstraint& law : dram_constraints(timing)) laws_[static_cast<std::size_t>(law.before)].push_back(law);
  const std::uint32_t group0 = 1 + ranks_, bank0 = group0 + ranks_ * groups_;
  for (std::uint32_t bank = 0; bank < org.banks_per_channel(); ++bank) {
    nodes_.push_back({1 + bank / banks_per_rank(), group0 + bank / banks_, bank0 + bank});
  }
  Ready none;
  none.fill(0);
  ready_.assign(bank0 + nodes_.size(), none);
  rows_.assign(nodes_.size(), kClosed);
  activating_.assign(nodes_.size(), false);
  activates_.assign(ranks_, {{kLongAgo, kLongAgo, kLongAgo, kLongAgo}});
}

bool BankState::all_closed(std::uint32_t rank) const {
  const auto first = rows_.begin() + rank * banks_per_rank();
  return std::all_of(first, first + banks_per_rank(), [](std::int32_t row) { return row == kClosed; });
}

void BankState::issue(DramCommand command, std::uint32_t bank, std::int32_t row, Cycle cycle) {
  VITRO_CHECK(cycle >= earliest(command, bank), "a DRAM command came too early");
  change_state(command, bank, row);
  const std::uint32_t rank = nodes_[bank].rank - 1;
  if (command == DramCommand::activate1) {
    std::array<Cycle, 4>& last = activates_[rank].last;
    std::rotate(last.begin(), last.begin() + 1, last.end());
    last.back() = cycle;
  }
  for (const DramConstraint& law : laws_[static_cast<std::size_t>(command)]) {
    constrain(law, bank, law.window == 1 ? cycle : activates_[rank].last.front());
  }
}

void BankState::constrain(const DramConstraint& law, std::uint32_t bank, Cycle cycle) {
  const auto after = static_cast<std::size_t>(law.after);
  const auto raise = [&](std::uint32_t node) { ready_[node][after] = std::max(ready_[node][after], cycle + law.cycles); };
  const Nodes& at = nodes_[bank];
  switch (law.scope) {
    case Scope::channel:
      return raise(0);
    case Scope::rank:
      return raise(at.rank);
    case Scope::group:
      return raise(at.group);
    case Scope::bank:
      return raise(at.bank);
    case Scope::other_ranks:
      for (std::uint32_t rank = 1; rank <= ranks_; ++rank) {
        if (rank != at.rank) raise(rank);
      }
  }
}

void BankState::change_state(DramCommand command, std::uint32_t bank, std::int32_t row) {
  switch (command) {
    case DramCommand::activate1:
      VITRO_CHECK(rows_[bank] == kClosed, "ACT to an open bank");
      rows_[bank] = row;
      activating_[bank] = true;
      break;
    case DramCommand::activate2:
      VITRO_CHECK(activating_[bank], "ACT-2 without ACT-1");
      activating_[bank] = false;
      break;
    case DramCommand::read:
    case DramCommand::write:
      VITRO_CHECK(rows_[bank] == row && !activating_[bank], "a column command to a row that is not open");
      break;
    case DramCommand::precharge:
      VITRO_CHECK(!activating_[bank], "PRE between ACT-1 and ACT-2");
      rows_[bank] = kClosed;
      break;
    case DramCommand::precharge_all:
      std::fill_n(rows_.begin() + bank / banks_per_rank() * banks_per_rank(), banks_per_rank(), kClosed);
      break;
    case DramCommand::refresh_all:
      VITRO_CHECK(all_closed(bank / banks_per_rank()), "REFab with an open bank");
      break;
    case DramCommand::refresh_bank:
      VITRO_CHECK(rows_[bank] == kClosed, "REFpb to an open bank");
      break;
  }
}

}  // namespace vitro::hw
