// The heap of a simulation: (time, tie, sequence). Keys are moved, payloads stay where they are.
#pragma once
#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/rng.hpp"
#include "hw_models/context.hpp"

namespace vitro::sim {

struct Event {
  Picoseconds when{0};
  hw::Label label;
  std::coroutine_handle<> handle;  // policy code to resume, or null
  hw::Callback action;             // of a device, without a handle
};

class EventHeap {
 public:
  explicit EventHeap(std::optional<std::uint64_t> shuffle) {
    if (shuffle) shuffle_.emplace(*shuffle);
  }

  bool empty() const { return keys_.empty(); }
  Picoseconds next() const { return Picoseconds(keys_.front().when); }  // Requires: not empty

  void push(const Event& event) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(events_.size());
      events_.push_back(event);
    } else {
      slot = free_.back();
      free_.pop_back();
      events_[slot] = event;
    }
    keys_.push_back({event.when.count(), shuffle_ ? shuffle_->next() : 0, sequence_++, slot});
    std::push_heap(keys_.begin(), keys_.end(), later);
  }

  Event pop() {
    std::pop_heap(keys_.begin(), keys_.end(), later);
    const std::uint32_t slot = keys_.back().slot;
    keys_.pop_back();
    free_.push_back(slot);
    return events_[slot];
  }

 private:
  struct Key {
    std::int64_t when;
    std::uint64_t tie, sequence;
    std::uint32_t slot;
  };
  static bool later(const Key& a, const Key& b) {
    if (a.when != b.when) return a.when > b.when;
    return a.tie != b.tie ? a.tie > b.tie : a.sequence > b.sequence;
  }

  std::vector<Key> keys_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> free_;
  std::optional<Rng> shuffle_;
  std::uint64_t sequence_ = 0;
};

}  // namespace vitro::sim
