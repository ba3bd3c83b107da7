#include "hw_models/ufs/host_queue.hpp"

#include <algorithm>

#include "engine/base/check.hpp"

namespace vitro::hw {
namespace {

template <class Commands>
auto of_issuer(Commands& commands, std::uint16_t issuer) {
  return std::find_if(commands.begin(), commands.end(), [issuer](const auto& entry) { return entry.first == issuer; });
}

}  // namespace

HostQueue::HostQueue(Context& context, Label label, const Spec& spec, std::function<void(std::uint32_t)> enter)
    : context_(context), label_(label), spec_(spec), enter_(std::move(enter)), queues_(spec.queues) {
  VITRO_CHECK(spec.queues > 0 && spec.slots > 0, "a host queue has slots");
}

void HostQueue::submit(std::uint32_t command, std::uint16_t issuer) {
  Queue& queue = queues_[issuer % queues_.size()];
  if (const auto own = of_issuer(queue.commands, issuer); own != queue.commands.end()) {
    ++own->second;
  } else {
    queue.commands.emplace_back(issuer, 1);
  }
  if (queue.used < spec_.slots) return admit(queue, {command, issuer});
  queue.waiting.push_back({command, issuer});
}

void HostQueue::admit(Queue& queue, Waiting entry) {
  ++queue.used;
  most_ = std::max(most_, ++in_flight_);
  queue.free = std::max(queue.free, context_.now()) + (queue.commands.size() > 1 ? spec_.contention : Picoseconds(0));
  if (queue.free == context_.now()) return enter_(entry.command);
  context_.at(queue.free, label_, [this, command = entry.command] { enter_(command); });
}

void HostQueue::complete(std::uint16_t issuer) {
  Queue& queue = queues_[issuer % queues_.size()];
  VITRO_CHECK(queue.used > 0, "a command ended that had no slot");
  --queue.used;
  --in_flight_;
  if (const auto own = of_issuer(queue.commands, issuer); --own->second == 0) queue.commands.erase(own);
  if (queue.waiting.empty()) return;
  const Waiting next = queue.waiting.front();
  queue.waiting.pop_front();
  admit(queue, next);
}

}  // namespace vitro::hw
