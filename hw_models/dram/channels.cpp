#include "hw_models/dram/channels.hpp"

#include <algorithm>

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kCommand };

}  // namespace

DramChannels::DramChannels(Context& context, std::uint16_t device, const DramTiming& timing, const DramOrganisation& organisation,
                           std::string_view mapping, const ControllerPolicy& policy)
    : context_(context), label_{device, kCommand}, timing_(timing), organisation_(organisation), map_(mapping, organisation) {
  for (std::uint32_t i = 0; i < organisation.channels; ++i) channels_.emplace_back(timing, organisation, policy);
}

bool DramChannels::try_push(std::uint64_t address, bool write, std::uint32_t tag) {
  const DramLocation at = map_.decode(address);
  DramController& channel = channels_[at.channel];
  if (!channel.has_room(write)) return false;
  const Cycle now = context_.now() / timing_.clock;
  channel.push(at, write, tag, now);
  if (write) writes_.push_back({now + timing_.write_latency(), tag});
  if (!awake_) arm();
  return true;
}

void DramChannels::wake() {
  const Cycle now = context_.now() / timing_.clock;
  if (now != armed_) return;  // overtaken by an earlier wake-up, which armed again
  armed_ = kNever;
  awake_ = true;
  deliver(reads_, now);
  deliver(writes_, now);
  if (step_channels(now)) sink_->room();
  awake_ = false;
  arm();
}

void DramChannels::deliver(std::deque<Ending>& endings, Cycle now) {
  while (!endings.empty() && endings.front().cycle <= now) {
    const std::uint32_t tag = endings.front().tag;
    endings.pop_front();
    sink_->line_finished(tag);
  }
}

bool DramChannels::step_channels(Cycle now) {
  bool stepped = false;
  DramController::Finished finished{};
  for (DramController& channel : channels_) {
    if (channel.next() != now) continue;
    stepped = true;
    if (channel.step(now, finished) && !finished.write) reads_.push_back({finished.cycle, finished.tag});
  }
  return stepped;
}

void DramChannels::arm() {
  Cycle next = kNever;
  for (const DramController& channel : channels_) next = std::min(next, channel.next());
  if (!reads_.empty()) next = std::min(next, reads_.front().cycle);
  if (!writes_.empty()) next = std::min(next, writes_.front().cycle);
  if (next >= armed_) return;
  armed_ = next;
  context_.at(time_of(next), label_, [this] { wake(); });
}

ControllerCounts DramChannels::counts() const {
  ControllerCounts sum;
  for (const DramController& channel : channels_) {
    const ControllerCounts& c = channel.counts();
    sum.reads += c.reads;
    sum.writes += c.writes;
    sum.hits += c.hits;
    sum.activates += c.activates;
    sum.precharges += c.precharges;
    sum.refreshes += c.refreshes;
    sum.read_cycles += c.read_cycles;
  }
  return sum;
}

Picoseconds DramChannels::mean_read_latency() const {
  const ControllerCounts sum = counts();
  return sum.reads == 0 ? Picoseconds(0)
                        : Picoseconds(time_of(static_cast<Cycle>(sum.read_cycles)).count() / static_cast<std::int64_t>(sum.reads));
}

}  // namespace vitro::hw
