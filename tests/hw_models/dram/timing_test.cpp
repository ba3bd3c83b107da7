// Laws of the banks: every command one cycle early, then on time. Numbers of JESD209-5B for LPDDR5-6400, in clocks.
#include <gtest/gtest.h>

#include "hw_models/dram/bank_state.hpp"

namespace vitro::hw {
namespace {

using C = DramCommand;
constexpr std::uint32_t kBank = 0, kSameGroup = 1, kOtherGroup = 4;  // four banks to a group
constexpr Cycle kStart = 1000;

struct Banks {
  explicit Banks(std::uint32_t ranks = 1) : state(dram_part("lpddr5_6400").timing, with_ranks(ranks)) {}
  static DramOrganisation with_ranks(std::uint32_t ranks) {
    DramOrganisation org;
    org.ranks = ranks;
    return org;
  }
  void activate(std::uint32_t bank, Cycle at, std::int32_t row = 7) {
    state.issue(C::activate1, bank, row, at);
    state.issue(C::activate2, bank, row, at + 1);
  }
  // The law: refused at `due` - 1, taken at `due`.
  void expect_first_at(C command, std::uint32_t bank, Cycle due, std::int32_t row = 7) {
    EXPECT_EQ(state.earliest(command, bank), due);
    EXPECT_DEATH(state.issue(command, bank, row, due - 1), "too early");
    state.issue(command, bank, row, due);
  }
  BankState state;
};

TEST(DramTiming, read_waits_for_trcd) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.expect_first_at(C::read, kBank, kStart + 15);
}

TEST(DramTiming, write_waits_for_trcd) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.expect_first_at(C::write, kBank, kStart + 15);
}

TEST(DramTiming, precharge_waits_for_tras) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.expect_first_at(C::precharge, kBank, kStart + 34);
}

TEST(DramTiming, activate_waits_for_trp_after_a_late_precharge) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.state.issue(C::precharge, kBank, 0, kStart + 100);
  banks.expect_first_at(C::activate1, kBank, kStart + 115);
}

TEST(DramTiming, activate_waits_for_trc_after_an_early_precharge) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.state.issue(C::precharge, kBank, 0, kStart + 34);
  banks.expect_first_at(C::activate1, kBank, kStart + 49);
}

TEST(DramTiming, activates_of_two_banks_keep_trrd_apart) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.expect_first_at(C::activate1, kSameGroup, kStart + 4);
}

TEST(DramTiming, four_activates_fit_tfaw) {
  DramTiming timing = dram_part("lpddr5_6400").timing;
  timing.faw = 20;  // 16 as specified, which four tRRD reach as well
  BankState banks(timing, {});
  for (std::uint32_t i = 0; i < 4; ++i) banks.issue(C::activate1, i, 7, kStart + 4 * i);
  EXPECT_EQ(banks.earliest(C::activate1, 4), kStart + 20);
  EXPECT_DEATH(banks.issue(C::activate1, 4, 7, kStart + 19), "too early");
  banks.issue(C::activate1, 4, 7, kStart + 20);
  EXPECT_EQ(banks.earliest(C::activate1, 5), kStart + 24);  // the window slides: the second one counts now
}

TEST(DramTiming, reads_of_one_group_keep_tccdl_apart_and_of_two_tccds) {
  Banks banks;
  for (const std::uint32_t bank : {kBank, kSameGroup, kOtherGroup}) banks.activate(bank, kStart + 10 * bank);
  banks.state.issue(C::read, kBank, 7, kStart + 200);
  EXPECT_EQ(banks.state.earliest(C::read, kSameGroup), kStart + 204);
  banks.expect_first_at(C::read, kOtherGroup, kStart + 202);
  banks.expect_first_at(C::read, kBank, kStart + 204);
}

TEST(DramTiming, precharge_waits_for_trtp_after_a_read) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.state.issue(C::read, kBank, 7, kStart + 100);
  banks.expect_first_at(C::precharge, kBank, kStart + 108);
}

TEST(DramTiming, precharge_waits_for_write_recovery) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.state.issue(C::write, kBank, 7, kStart + 100);
  banks.expect_first_at(C::precharge, kBank, kStart + 100 + 9 + 2 + 28);
}

TEST(DramTiming, write_to_read_turnaround_is_longer_within_a_group) {
  Banks banks;
  for (const std::uint32_t bank : {kBank, kSameGroup, kOtherGroup}) banks.activate(bank, kStart + 10 * bank);
  banks.state.issue(C::write, kBank, 7, kStart + 200);
  EXPECT_EQ(banks.state.earliest(C::read, kSameGroup), kStart + 200 + 9 + 4 + 10);
  banks.expect_first_at(C::read, kOtherGroup, kStart + 200 + 9 + 2 + 5);
}

TEST(DramTiming, read_to_write_turnaround_keeps_the_bursts_apart) {
  Banks banks;
  for (const std::uint32_t bank : {kBank, kOtherGroup}) banks.activate(bank, kStart + 10 * bank);
  banks.state.issue(C::read, kBank, 7, kStart + 200);
  banks.expect_first_at(C::write, kOtherGroup, kStart + 200 + 17 + 2 + 2 - 9);
}

TEST(DramTiming, two_ranks_share_the_data_bus_with_a_gap) {
  Banks banks(2);
  constexpr std::uint32_t kOtherRank = 16;
  banks.activate(kBank, kStart);
  banks.activate(kOtherRank, kStart + 1);  // no tRRD between ranks
  banks.state.issue(C::read, kBank, 7, kStart + 100);
  banks.expect_first_at(C::read, kOtherRank, kStart + 104);
}

TEST(DramTiming, precharges_keep_tppd_apart) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.activate(kOtherGroup, kStart + 10);
  banks.state.issue(C::precharge, kBank, 0, kStart + 100);
  banks.expect_first_at(C::precharge, kOtherGroup, kStart + 102);
}

TEST(DramTiming, refresh_waits_for_all_banks_to_close) {
  Banks banks;
  banks.activate(kBank, kStart);
  banks.expect_first_at(C::precharge_all, kBank, kStart + 34);
  banks.expect_first_at(C::refresh_all, kBank, kStart + 51);
}

TEST(DramTiming, refresh_blocks_all_banks) {
  Banks banks;
  banks.state.issue(C::refresh_all, kBank, 0, kStart);
  for (std::uint32_t bank = 0; bank < 16; ++bank) EXPECT_EQ(banks.state.earliest(C::activate1, bank), kStart + 224);  // 280 ns
  banks.expect_first_at(C::activate1, kOtherGroup, kStart + 224);
}

TEST(DramTiming, per_bank_refresh_blocks_its_bank_and_the_others_for_a_moment) {
  Banks banks;
  banks.state.issue(C::refresh_bank, kBank, 0, kStart);
  EXPECT_EQ(banks.state.earliest(C::activate1, kBank), kStart + 112);  // 140 ns
  banks.expect_first_at(C::activate1, kOtherGroup, kStart + 6);        // 7.5 ns
}

TEST(DramTiming, a_column_command_needs_its_row_and_both_halves_of_the_activation) {
  Banks banks;
  banks.state.issue(C::activate1, kBank, 7, kStart);
  EXPECT_DEATH(banks.state.issue(C::read, kBank, 7, kStart + 20), "not open");
  banks.state.issue(C::activate2, kBank, 7, kStart + 8);
  EXPECT_DEATH(banks.state.issue(C::read, kBank, 8, kStart + 20), "not open");
  banks.state.issue(C::read, kBank, 7, kStart + 20);
}

TEST(DramTiming, scaled_parts_keep_times_and_are_never_faster_than_their_rate) {
  for (const DramPart& part : dram_parts()) {
    const double rate = part.name.ends_with("9600") ? 9600 : part.name.ends_with("8533") ? 8533 : 6400;
    EXPECT_LE(part.timing.peak(part.organisation).value, rate * 1e6 * 2 * part.organisation.channels + 1) << part.name;
    for (const TimingRow& row : timing_rows()) {
      if (row.in_clocks) continue;
      EXPECT_GE((part.timing.*row.member) * part.timing.clock, row.value) << part.name << ' ' << row.key;
    }
  }
}

}  // namespace
}  // namespace vitro::hw
