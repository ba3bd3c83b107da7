// What a simulation does next: by time, then by order of arrival or a draw. Keys are moved, payloads stay where they are.
#pragma once
#include <algorithm>
#include <array>
#include <coroutine>
#include <cstdint>
#include <cstring>
#include <functional>
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

// The next few events stand in a line, which a new one enters by a search and a short move; a simulation rarely has more of them at a
// time than the line holds. Those behind it are a heap.
class EventQueue {
 public:
  explicit EventQueue(std::optional<std::uint64_t> shuffle) {
    if (shuffle) shuffle_.emplace(*shuffle);
  }

  bool empty() const { return line_.empty(); }
  Picoseconds next() const { return Picoseconds(line_.back().when); }  // Requires: not empty

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
    VITRO_CHECK(slot < 1u << kSlotBits, "more events at a time than a key can name");
    const std::uint64_t order = shuffle_ ? shuffle_->next() >> kSlotBits : sequence_++;
    const Key key{event.when.count(), order << kSlotBits | slot};
    if (line_.size() == kLine) spill();
    if (!rest_.empty() && rest_.front() < key) {
      rest_.push_back(key);
      std::ranges::push_heap(rest_, std::greater());
    } else {
      enter(key);
    }
  }

  Event pop() {  // Requires: not empty
    const std::uint32_t slot = line_.back().slot();
    line_.pop_back();
    if (line_.empty()) refill();
    free_.push_back(slot);
    return events_[slot];
  }

 private:
  static constexpr std::size_t kLine = 256;  // keys
  static constexpr std::size_t kStride = 8;  // of those that are moved together

  static constexpr int kSlotBits = 24;
  struct Key {
    std::int64_t when;
    // Of equal times the order of arrival, for 10^12 events, or a draw of which two equal ones are not to be expected; and whose key it is.
    std::uint64_t order_and_slot;
    // One comparison of 128 bits and no branch: which of two keys is less is hard to predict.
    __extension__ using Wide = unsigned __int128;
    Wide wide() const { return Wide{static_cast<std::uint64_t>(when)} << 64 | order_and_slot; }  // times are not negative
    bool operator<(const Key& other) const { return wide() < other.wide(); }
    bool operator>(const Key& other) const { return other < *this; }
    std::uint32_t slot() const { return order_and_slot & ((1u << kSlotBits) - 1); }
  };

  // Requires: no key of rest_ is less, and there is room.
  void enter(const Key& key) {
    std::size_t place = line_.size();
    line_.push_back(key);
    for (; place >= kStride && line_[place - kStride] < key; place -= kStride) {
      std::array<Key, kStride> sooner;
      std::memcpy(sooner.data(), &line_[place - kStride], sizeof sooner);
      std::memcpy(&line_[place - kStride + 1], sooner.data(), sizeof sooner);
    }
    for (; place > 0 && line_[place - 1] < key; --place) line_[place] = line_[place - 1];
    line_[place] = key;
  }

  void spill() {
    const auto half = line_.begin() + kLine / 2;
    for (auto key = line_.begin(); key != half; ++key) {
      rest_.push_back(*key);
      std::ranges::push_heap(rest_, std::greater());
    }
    line_.erase(line_.begin(), half);
  }

  void refill() {
    const std::size_t count = std::min(rest_.size(), kLine / 2);
    line_.resize(count);
    for (std::size_t i = count; i-- > 0; rest_.pop_back()) {
      std::ranges::pop_heap(rest_, std::greater());
      line_[i] = rest_.back();
    }
  }

  std::vector<Key> line_;  // the latest first, so that the next one leaves at the end
  std::vector<Key> rest_;  // a heap, the next one on top; none is less than any of the line
  std::vector<Event> events_;
  std::vector<std::uint32_t> free_;
  std::optional<Rng> shuffle_;
  std::uint64_t sequence_ = 0;
};

}  // namespace vitro::sim
