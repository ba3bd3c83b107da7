// Reads of one submission that are wanted together: the policy's core issues them one after the other, the device works out what happens to
// them in one call, and they end together.
#include <utility>

#include "sim/storage.hpp"

namespace vitro::sim {
namespace {

enum Kind : std::uint16_t { kGroupIssued = 220 };

}  // namespace

std::uint32_t SimStorage::take_group(VectorRead& read, UnitId issuer) {
  if (free_groups_.empty()) {
    free_groups_.push_back(static_cast<std::uint32_t>(groups_.size()));
    groups_.emplace_back();
  }
  const std::uint32_t number = free_groups_.back();
  free_groups_.pop_back();
  Group& group = groups_[number];
  group.read = &read;
  group.members.clear();
  group.commands.clear();
  group.length = 0;
  SimUnit& unit = *s_.units.at(static_cast<std::size_t>(issuer));
  group.core = unit.caps().kind == UnitKind::core ? &unit.core() : &s_.policy_core;
  return number;
}

// As many groups as the device's slots and the issuers make necessary. A request of more commands than there are slots goes alone.
void SimStorage::start_together(VectorRead& read) {
  const std::vector<ReadRequest>& requests = read.requests();
  const std::uint32_t most = model_.most_together();
  std::optional<std::uint32_t> open;  // the group that requests are added to
  UnitId issuer{};
  const auto close = [&] {
    if (const std::optional<std::uint32_t> number = std::exchange(open, std::nullopt)) issue_group(*number);
  };
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    const ReadRequest& request = requests[i];
    VITRO_CHECK(request.into && request.into_offset + request.from.length <= request.into.size(), "a read beyond the end of its lease");
    if (std::optional<IoResult> refused = refusal(request.from, false)) {
      read.complete(i, *std::move(refused));
      continue;
    }
    const Bytes first = round_down(request.from.offset, kPageSize);
    const Bytes length = round_up(request.from.offset + request.from.length, kPageSize) - first;
    const auto commands = static_cast<std::uint32_t>((length + caps_.max_transfer - 1) / caps_.max_transfer);
    if (open && (request.issuer != issuer || groups_[*open].commands.size() + commands > most)) close();
    if (commands > most) {
      start(request, ResultSlot(read, i));
      continue;
    }
    issuer = request.issuer;
    if (!open) open = take_group(read, issuer);
    Group& group = groups_[*open];
    const bool drives = group.core != &s_.policy_core || s_.units.at(static_cast<std::size_t>(issuer))->caps().kind == UnitKind::core;
    for (Bytes at = 0; at < length; at += caps_.max_transfer) {
      hw::IoRequest command;
      command.address = file(request.from.file).address + first + at;
      command.length = std::min(caps_.max_transfer, length - at);
      command.sequential = at > 0 || request.pattern == Pattern::sequential;
      command.issuer = drives ? static_cast<std::uint16_t>(issuer) : kPolicyIssuer;
      group.commands.push_back({command, {}});
    }
    group.members.push_back(i);
    group.length += length;
    ++totals_.reads;
    totals_.bytes_read += length;
  }
  close();
}

void SimStorage::issue_group(std::uint32_t number) {
  Group& group = groups_[number];
  const Picoseconds now = s_.executor.now();
  group.submitted = now;
  s_.meter.storage_begins(now, static_cast<std::uint32_t>(group.members.size()));
  if (s_.trace.enabled()) s_.trace.counter(outstanding_track_, now, s_.meter.storage_outstanding());
  const Picoseconds cost = model_.issue_time(group.core->model().clock());
  const auto commands = static_cast<std::int64_t>(group.commands.size());
  const Picoseconds last = group.core->system_work(SystemWork::issue_io, now, commands * cost);
  for (std::int64_t i = 0; i < commands; ++i) group.commands[static_cast<std::size_t>(i)].issued = last - (commands - 1 - i) * cost;
  s_.executor.at(last, {device_, kGroupIssued},
                 [this, number] { model_.submit_reads(groups_[number].commands, [this, number] { end_group(number); }); });
  if (group.core == &s_.policy_core) s_.executor.hold_policy_until(s_.policy_core.system_free());
}

void SimStorage::end_group(std::uint32_t number) {
  Group& group = groups_[number];
  const Picoseconds now = s_.executor.device_now();
  s_.meter.storage_ends(now, static_cast<std::uint32_t>(group.members.size()));
  if (s_.power != nullptr) s_.power->dram_written(group.length);
  for (const std::uint32_t i : group.members) trace_end(group.submitted, now, &group.read->requests()[i], nullptr);
  for (const std::uint32_t i : group.members) group.read->complete(i, move_bytes(&group.read->requests()[i], nullptr));
  free_groups_.push_back(number);
}

}  // namespace vitro::sim
