// The heap of a simulation: (time, order of arrival or a draw). Keys are moved, payloads stay where they are. What is due at
// once, as most coroutines are, stands in a line of its own instead.
#pragma once
#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/check.hpp"
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

  bool empty() const { return keys_.empty() && due_.empty(); }
  Picoseconds next() const { return due_first() ? due_[next_due_].event.when : Picoseconds(keys_.front().when); }  // Requires: not empty

  // Requires: `now` does not fall from call to call, and no event is due before the `now` at which it is pushed.
  void push(const Event& event, Picoseconds now) {
    if (event.when == now && !shuffle_) {
      due_.push_back({event, sequence_++});
      return;
    }
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(events_.size());
      events_.push_back(event);
    } else {
      slot = free_.back();
      free_.pop_back();
      events_[slot] = event;
    }
    VITRO_CHECK(slot < 1u << kSlotBits, "more events at a time than a key can name");
    const std::uint64_t order = shuffle_ ? shuffle_->next() >> kSlotBits : sequence_++;
    sift_up({event.when.count(), order << kSlotBits | slot});
  }

  Event pop() {  // Requires: not empty
    if (due_first()) {
      const Event event = due_[next_due_++].event;
      if (next_due_ == due_.size()) {
        due_.clear();
        next_due_ = 0;
      }
      return event;
    }
    const std::uint32_t slot = keys_.front().slot();
    const Key last = keys_.back();
    keys_.pop_back();
    if (!keys_.empty()) sift_down(last);
    free_.push_back(slot);
    return events_[slot];
  }

 private:
  // Four children a node: half the levels of a binary heap, and the children lie in one or two cache lines.
  static constexpr std::size_t kChildren = 4;

  // Of 16 bytes, so that four children fill one cache line.
  static constexpr int kSlotBits = 24;
  struct Key {
    std::int64_t when;
    // Of equal times the order of arrival, for 10^12 events, or a draw of which two equal ones are not to be expected; and whose key it is.
    std::uint64_t order_and_slot;
    // One comparison of 128 bits and no branch: which of two keys is less is hard to predict.
    __extension__ using Wide = unsigned __int128;
    Wide wide() const { return Wide{static_cast<std::uint64_t>(when)} << 64 | order_and_slot; }  // times are not negative
    bool operator<(const Key& other) const { return wide() < other.wide(); }
    std::uint64_t order() const { return order_and_slot >> kSlotBits; }
    std::uint32_t slot() const { return order_and_slot & ((1u << kSlotBits) - 1); }
  };

  struct Due {
    Event event;
    std::uint64_t order;
  };
  // True when the first of the line comes before all of the heap. The line is in order: it only grows at its end, as time does.
  bool due_first() const {
    if (due_.empty()) return false;
    if (keys_.empty()) return true;
    const Due& first = due_[next_due_];
    const std::int64_t when = first.event.when.count();
    return keys_.front().when != when ? when < keys_.front().when : first.order < keys_.front().order();
  }

  void sift_up(const Key& key) {
    std::size_t hole = keys_.size();
    keys_.push_back(key);
    for (; hole > 0 && key < keys_[(hole - 1) / kChildren]; hole = (hole - 1) / kChildren) keys_[hole] = keys_[(hole - 1) / kChildren];
    keys_[hole] = key;
  }

  void sift_down(const Key& key) {
    std::size_t hole = 0;
    for (std::size_t first = 1; first < keys_.size(); first = hole * kChildren + 1) {
      const std::size_t end = std::min(first + kChildren, keys_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (keys_[child] < keys_[least]) least = child;
      }
      if (!(keys_[least] < key)) break;
      keys_[hole] = keys_[least];
      hole = least;
    }
    keys_[hole] = key;
  }

  std::vector<Due> due_;  // from next_due_ on; empty when there is none
  std::size_t next_due_ = 0;
  std::vector<Key> keys_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> free_;
  std::optional<Rng> shuffle_;
  std::uint64_t sequence_ = 0;
};

}  // namespace vitro::sim
