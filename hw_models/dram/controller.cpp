#include "hw_models/dram/controller.hpp"

#include <algorithm>
#include <tuple>

#include "engine/base/check.hpp"

namespace vitro::hw {

using C = DramCommand;

DramController::DramController(const DramTiming& timing, const DramOrganisation& org, const ControllerPolicy& policy)
    : timing_(timing), policy_(policy), banks_(timing, org), ranks_(org.ranks), by_bank_(banks_.banks()) {
  if (policy.refresh == RefreshPolicy::all_bank) refresh_interval_ = timing.refi;
  if (policy.refresh == RefreshPolicy::per_bank) refresh_interval_ = timing.refi_pb;
  next_refresh_ = refresh_interval_;
}

void DramController::push(const DramLocation& at, bool write, std::uint32_t tag, Cycle now) {
  VITRO_CHECK(has_room(write), "a line was pushed into a full DRAM queue");
  const bool was_idle = idle(), was_draining = draining_;
  if (was_idle) catch_up(now);
  (write ? writes_ : reads_).push_back({banks_.bank_of(at), static_cast<std::int32_t>(at.row), tag, write, now, order_++});
  set_mode();
  const Cycle from = std::max(now + 1, bus_free_);
  if (was_idle || draining_ != was_draining) return plan(from);
  // The youngest line changes nothing for the others: only whether it could go first itself.
  if (write == draining_ && maintenance_.empty()) consider(served().back(), served().size() - 1, from);
  next_ = std::min(choice_.cycle, next_refresh_);
}

bool DramController::step(Cycle now, Finished& finished) {
  VITRO_CHECK(now == next_, "a DRAM channel was stepped at another time than it asked for");
  if (now == next_refresh_) {
    queue_refresh();
    plan(std::max(now, bus_free_));
    if (next_ != now) return false;
  }
  const std::uint64_t before = counts_.reads + counts_.writes;
  issue(now, &finished);
  set_mode();
  plan(now + 1);
  return counts_.reads + counts_.writes != before;
}

void DramController::plan(Cycle from) {
  choice_ = {};
  ++plans_;
  consider_activation(from);
  consider_opened(from);
  consider_maintenance(from);
  if (maintenance_.empty()) consider_queue(from);
  next_ = idle() ? kNever : std::min(choice_.cycle, next_refresh_);
}

void DramController::offer(Choice::Rank rank, C command, Cycle cycle, std::uint64_t order, std::size_t index) {
  if (std::tie(cycle, rank, order) < std::tie(choice_.cycle, choice_.rank, choice_.order)) choice_ = {rank, command, cycle, order, index};
}

// ACT-2 fills a free slot of the command bus, at the latest its deadline.
void DramController::consider_activation(Cycle from) {
  if (!activation_) return;
  const Cycle cycle = std::max(from, banks_.earliest(C::activate2, activation_->bank));
  const auto rank = cycle >= activation_->deadline ? Choice::Rank::overdue : Choice::Rank::activation;
  offer(rank, C::activate2, cycle, 0, 0);
}

void DramController::consider_opened(Cycle from) {
  for (std::size_t i = 0; i < opened_.size(); ++i) {
    const Line& line = opened_[i];
    if (banks_.activating(line.bank)) continue;
    const C command = line.write ? C::write : C::read;
    offer(Choice::Rank::opened, command, std::max(from, banks_.earliest(command, line.bank)), line.order, i);
  }
}

void DramController::consider_maintenance(Cycle from) {
  if (maintenance_.empty()) return;
  const Maintenance& due = maintenance_.front();
  const bool whole_rank = due.command == C::refresh_all;
  const std::uint32_t rank = due.bank / banks_.banks_per_rank();
  const auto concerned = [&](std::uint32_t bank) { return whole_rank ? bank / banks_.banks_per_rank() == rank : bank == due.bank; };
  if (activation_ && concerned(activation_->bank)) return;
  if (std::any_of(opened_.begin(), opened_.end(), [&](const Line& line) { return concerned(line.bank); })) return;
  C command = due.command;
  if (whole_rank && !banks_.all_closed(rank)) command = C::precharge_all;
  if (!whole_rank && banks_.open_row(due.bank) != BankState::kClosed) command = C::precharge;
  offer(Choice::Rank::maintenance, command, std::max(from, banks_.earliest(command, due.bank)), 0, 0);
}

void DramController::consider_queue(Cycle from) {
  const std::vector<Line>& queue = served();
  for (std::size_t i = 0; i < queue.size(); ++i) consider(queue[i], i, from);
}

// Lines come by age, so the hits seen so far are the older ones.
void DramController::consider_first(const Line& line, std::size_t index, Cycle from) {
  const std::int32_t open = banks_.open_row(line.bank);
  const BankInPlan& bank = by_bank_[line.bank];
  C command = C::activate1;
  if (open == line.row) {
    if (banks_.activating(line.bank)) return;
    command = line.write ? C::write : C::read;
  } else if (open != BankState::kClosed) {
    if (bank.hit == plans_ || bank.opened > 0) return;
    command = C::precharge;
  } else if (activation_) {
    return;
  }
  const Cycle ready = std::max(banks_.earliest(command, line.bank), line.arrival + 1);
  offer(Choice::Rank::queued, command, std::max(from, ready), line.order, index);
}

void DramController::issue(Cycle now, Finished* finished) {
  bus_free_ = now + 1;
  const Choice choice = choice_;
  const auto at = static_cast<std::ptrdiff_t>(choice.index);
  switch (choice.rank) {
    case Choice::Rank::overdue:
    case Choice::Rank::activation:
      banks_.issue(C::activate2, activation_->bank, 0, now);
      activation_.reset();
      return;
    case Choice::Rank::maintenance:
      banks_.issue(choice.command, maintenance_.front().bank, 0, now);
      if (choice.command != maintenance_.front().command) {
        ++counts_.precharges;
        return;
      }
      ++counts_.refreshes;
      maintenance_.erase(maintenance_.begin());
      return;
    case Choice::Rank::opened:
      --by_bank_[opened_[choice.index].bank].opened;
      return serve(opened_, now, finished);
    case Choice::Rank::queued:
      break;
    case Choice::Rank::nothing:
      VITRO_CHECK(false, "a DRAM channel has nothing to issue");
  }
  std::vector<Line>& queue = served();
  const Line line = queue[choice.index];
  if (choice.command == C::read || choice.command == C::write) {
    ++counts_.hits;
    return serve(queue, now, finished);
  }
  banks_.issue(choice.command, line.bank, line.row, now);
  if (choice.command == C::precharge) {
    ++counts_.precharges;
    return;
  }
  ++counts_.activates;
  activation_ = {line.bank, now + timing_.aad};
  ++by_bank_[line.bank].opened;
  opened_.push_back(line);
  queue.erase(queue.begin() + at);
}

void DramController::serve(std::vector<Line>& queue, Cycle now, Finished* finished) {
  const auto at = queue.begin() + static_cast<std::ptrdiff_t>(choice_.index);
  const Line line = *at;
  queue.erase(at);
  banks_.issue(choice_.command, line.bank, line.row, now);
  const Cycle end = now + (line.write ? timing_.write_latency() : timing_.read_latency());
  ++(line.write ? counts_.writes : counts_.reads);
  if (!line.write) counts_.read_cycles += static_cast<std::uint64_t>(end - line.arrival);
  *finished = {line.tag, line.write, end};
}

void DramController::set_mode() {
  const auto fill = static_cast<double>(writes_.size());
  if (!draining_) {
    draining_ = fill > policy_.drain_from * policy_.queue || reads_.empty();
  } else if (fill < policy_.drain_to * policy_.queue && !reads_.empty()) {
    draining_ = false;
  }
}

void DramController::queue_refresh() {
  next_refresh_ += refresh_interval_;
  const bool whole_rank = policy_.refresh == RefreshPolicy::all_bank;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const std::uint32_t first = rank * banks_.banks_per_rank();
    maintenance_.push_back(whole_rank ? Maintenance{C::refresh_all, first} : Maintenance{C::refresh_bank, first + next_bank_});
  }
  next_bank_ = (next_bank_ + 1) % banks_.banks_per_rank();
}

// The refreshes of an idle time, of which only the last ones can still matter: rows are closed, the very last may be under way.
void DramController::catch_up(Cycle now) {
  if (next_refresh_ > now) return;
  const Cycle missed = (now - next_refresh_) / refresh_interval_ + 1;
  const bool whole_rank = policy_.refresh == RefreshPolicy::all_bank;
  const Cycle matter = std::min<Cycle>(missed, whole_rank ? 1 : banks_.banks_per_rank());
  const Cycle skipped = missed - matter;
  counts_.refreshes += static_cast<std::uint64_t>(skipped) * ranks_;
  next_refresh_ += skipped * refresh_interval_;
  next_bank_ = static_cast<std::uint32_t>((next_bank_ + skipped) % banks_.banks_per_rank());
  for (Cycle i = 0; i < matter; ++i) {
    bus_free_ = std::max(bus_free_, next_refresh_);
    queue_refresh();
    while (!maintenance_.empty()) {
      choice_ = {};
      consider_maintenance(bus_free_);
      issue(choice_.cycle, nullptr);
    }
  }
}

}  // namespace vitro::hw
