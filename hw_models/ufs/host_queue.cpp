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

void HostQueue::submit(std::uint32_t command, std::uint16_t issuer, std::uint32_t slots) {
  VITRO_CHECK(slots > 0 && slots <= spec_.slots, "commands that enter together have slots together");
  Queue& queue = queues_[issuer % queues_.size()];
  if (const auto own = of_issuer(queue.commands, issuer); own != queue.commands.end()) {
    own->second += slots;
  } else {
    queue.commands.emplace_back(issuer, slots);
  }
  const Waiting entry{command, issuer, slots};
  if (queue.waiting.empty() && queue.used + slots <= spec_.slots) return admit(queue, entry);
  queue.waiting.push_back(entry);
}

void HostQueue::admit(Queue& queue, Waiting entry) {
  queue.used += entry.slots;
  most_ = std::max(most_, in_flight_ += entry.slots);
  queue.free = std::max(queue.free, context_.now());
  if (queue.commands.size() > 1) queue.free += static_cast<std::int64_t>(entry.slots) * spec_.contention;
  if (queue.free == context_.now()) return enter_(entry.command);
  context_.at(queue.free, label_, [this, command = entry.command] { enter_(command); });
}

void HostQueue::complete(std::uint16_t issuer, std::uint32_t slots) {
  Queue& queue = queues_[issuer % queues_.size()];
  VITRO_CHECK(queue.used >= slots, "a command ended that had no slot");
  queue.used -= slots;
  in_flight_ -= slots;
  if (const auto own = of_issuer(queue.commands, issuer); (own->second -= slots) == 0) queue.commands.erase(own);
  while (!queue.waiting.empty() && queue.used + queue.waiting.front().slots <= spec_.slots) {
    const Waiting next = queue.waiting.front();
    queue.waiting.pop_front();
    admit(queue, next);
  }
}

}  // namespace vitro::hw
