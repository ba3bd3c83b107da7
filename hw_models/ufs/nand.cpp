#include "hw_models/ufs/nand.hpp"

#include "engine/base/check.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kSensed = 32, kSector, kProgrammed };

}  // namespace

NandArray::NandArray(Context& context, std::uint16_t device, const NandSpec& spec)
    : context_(context),
      device_(device),
      spec_(spec),
      sector_time_(transfer_time(kPageSize, spec.channel_rate)),
      seed_(context.rng("nand").next()),
      dies_(spec.dies()),
      channels_(spec.channels) {}

void NandArray::submit(const NandOperation& operation) {
  VITRO_CHECK(operation.die < dies_.size() && operation.sectors <= spec_.stripe(), "a NAND operation covers one stripe of one die");
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(active_.size()));
    active_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  active_[slot] = {operation, 0};
  Die& die = dies_[operation.die];
  (operation.kind == NandOperation::Kind::read ? die.reads : die.others).push_back(slot);
  if (!die.busy) begin_next(operation.die);
}

void NandArray::begin_next(std::uint32_t index) {
  Die& die = dies_[index];
  std::deque<std::uint32_t>& queue = die.reads.empty() ? die.others : die.reads;
  if (queue.empty()) return;
  const std::uint32_t slot = queue.front();
  queue.pop_front();
  die.busy = true;
  const Picoseconds now = context_.now();
  switch (active_[slot].operation.kind) {
    case NandOperation::Kind::read:
      return context_.at(now + sense_time(index), {device_, kSensed}, [this, slot] { ask_channel(slot); });
    case NandOperation::Kind::program:
      return ask_channel(slot);
    case NandOperation::Kind::erase:
      return context_.at(now + spec_.erase, {device_, kProgrammed}, [this, slot] { finish(slot); });
  }
}

// The draw depends on the die and on how often it was read, not on what happens elsewhere.
Picoseconds NandArray::sense_time(std::uint32_t die) {
  const bool again = to_unit(mix(seed_, {die, dies_[die].sensed++})) < spec_.retry_probability;
  return again ? spec_.read + spec_.retry : spec_.read;
}

void NandArray::ask_channel(std::uint32_t slot) {
  const NandOperation& operation = active_[slot].operation;
  const std::uint32_t channel = operation.die % spec_.channels;
  channels_[channel].waiting.emplace(operation.order, arrivals_++, slot);
  pump(channel);
}

void NandArray::pump(std::uint32_t index) {
  Channel& channel = channels_[index];
  if (channel.busy || channel.waiting.empty()) return;
  const std::uint32_t slot = std::get<2>(*channel.waiting.begin());
  channel.busy = true;
  context_.at(context_.now() + sector_time_, {device_, kSector}, [this, slot] { sector_moved(slot); });
}

void NandArray::sector_moved(std::uint32_t slot) {
  const NandOperation operation = active_[slot].operation;
  const std::uint32_t index = active_[slot].moved++;
  const bool last = index + 1 == operation.sectors;
  Channel& channel = channels_[operation.die % spec_.channels];
  channel.busy = false;
  if (last) {
    std::erase_if(channel.waiting, [slot](const auto& entry) { return std::get<2>(entry) == slot; });
  }
  pump(operation.die % spec_.channels);
  if (operation.kind == NandOperation::Kind::program) {
    if (last) context_.at(context_.now() + operation.program, {device_, kProgrammed}, [this, slot] { finish(slot); });
    return;
  }
  operation.client->sector_arrived(operation.tag, index);
  if (last) finish(slot);
}

void NandArray::finish(std::uint32_t slot) {
  const NandOperation operation = active_[slot].operation;
  free_.push_back(slot);
  dies_[operation.die].busy = false;
  begin_next(operation.die);
  operation.client->operation_done(operation.tag);
}

}  // namespace vitro::hw
