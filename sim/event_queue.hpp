// What a simulation does next: by time, then by order of arrival or a draw. Keys are moved, payloads stay where they are.
#pragma once
#include <algorithm>
#include <array>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <limits>
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
// time than the line holds. Those behind it are a heap. What is rare has functions of its own, so that the rest stays short.
class EventQueue {
 public:
  explicit EventQueue(std::optional<std::uint64_t> shuffle) {
    if (shuffle) shuffle_.emplace(*shuffle);
    line_.fill(kLast);
  }

  bool empty() const { return size_ == 0; }
  bool shuffles() const { return shuffle_.has_value(); }
  Picoseconds next() const { return Picoseconds(line_[kStride + size_ - 1].when); }  // Requires: not empty

  void push(const Event& event) { add(event.when) = event; }
  // Behind all other events of its time, also those that are pushed later (but not so).
  void push_last(const Event& event) { insert(event.when, order() | kBehindAll) = event; }
  // An event whose label, handle and action the caller sets at once: what was written in small pieces a moment ago is slow to copy.
  Event& add(Picoseconds when) { return insert(when, order()); }

  std::size_t size() const { return size_ + rest_.size(); }

  const Event& pop() {  // Requires: not empty. Lasts until an event is added
    const std::uint32_t slot = line_[kStride + --size_].slot();
    if (size_ == 0 && !rest_.empty()) [[unlikely]]
      refill();
    free_[free_count_++] = slot;
    return events_[slot];
  }

 private:
  static constexpr std::size_t kLine = 256;  // keys
  static constexpr std::size_t kStride = 4;  // of those that are moved together

  static constexpr int kSlotBits = 24;
  static constexpr std::uint64_t kBehindAll = std::uint64_t{1} << (63 - kSlotBits);  // a bit of the order that no other event has
  struct Key {
    std::int64_t when;
    // Of equal times the order of arrival, for 5 * 10^11 events, or a draw of which two equal ones are not to be expected; and whose key it
    // is.
    std::uint64_t order_and_slot;
    // One comparison of 128 bits and no branch: which of two keys is less is hard to predict.
    __extension__ using Wide = unsigned __int128;
    Wide wide() const { return Wide{static_cast<std::uint64_t>(when)} << 64 | order_and_slot; }  // times are not negative
    bool operator<(const Key& other) const { return wide() < other.wide(); }
    bool operator>(const Key& other) const { return other < *this; }
    std::uint32_t slot() const { return order_and_slot & ((1u << kSlotBits) - 1); }
  };
  static constexpr Key kLast{std::numeric_limits<std::int64_t>::max(), ~std::uint64_t{0}};  // later than any event

  std::uint64_t order() { return shuffle_ ? draw() : sequence_++; }

  Event& insert(Picoseconds when, std::uint64_t order) {
    if (free_count_ == 0) [[unlikely]]
      add_slots();
    const std::uint32_t slot = free_[--free_count_];
    const Key key{when.count(), order << kSlotBits | slot};
    if (size_ == kLine) [[unlikely]]
      spill();
    if (!rest_.empty() && rest_.front() < key) [[unlikely]] {
      stand_behind(key);
    } else {
      enter(key);
    }
    Event& event = events_[slot];
    event.when = when;
    return event;
  }

  // Requires: no key of rest_ is less, and there is room.
  void enter(const Key& key) {
    Key* place = &line_[kStride + size_++];
    static_assert(kStride == 4);  // copies by name stay in registers
    for (; *(place - kStride) < key; place -= kStride) {
      const Key a = place[-4], b = place[-3], c = place[-2], d = place[-1];
      place[-3] = a, place[-2] = b, place[-1] = c, place[0] = d;
    }
    for (; place[-1] < key; --place) place[0] = place[-1];
    place[0] = key;
  }

  [[gnu::noinline]] std::uint64_t draw() { return shuffle_->next() >> (kSlotBits + 1); }

  [[gnu::noinline]] void stand_behind(const Key& key) {
    rest_.push_back(key);
    std::ranges::push_heap(rest_, std::greater());
  }

  [[gnu::noinline]] void add_slots() {
    const std::size_t slots = events_.size(), more = std::max<std::size_t>(64, slots);
    VITRO_CHECK(slots + more <= 1u << kSlotBits, "more events at a time than a key can name");
    events_.resize(slots + more);
    free_.resize(slots + more);
    for (std::size_t slot = slots + more; slot-- > slots;) free_[free_count_++] = static_cast<std::uint32_t>(slot);
  }

  [[gnu::noinline]] void spill() {
    const auto begin = line_.begin() + kStride, half = begin + kLine / 2;
    for (auto key = begin; key != half; ++key) stand_behind(*key);
    std::copy(half, begin + kLine, begin);
    size_ -= kLine / 2;
  }

  [[gnu::noinline]] void refill() {
    size_ = std::min(rest_.size(), kLine / 2);
    for (std::size_t i = size_; i-- > 0; rest_.pop_back()) {
      std::ranges::pop_heap(rest_, std::greater());
      line_[kStride + i] = rest_.back();
    }
  }

  // The latest first, so that the next one leaves at the end; before it stands kLast, so that no search needs to ask for the beginning.
  std::array<Key, kStride + kLine> line_;
  std::size_t size_ = 0;   // of the line
  std::vector<Key> rest_;  // a heap, the next one on top; none is less than any of the line
  std::vector<Event> events_;
  std::vector<std::uint32_t> free_;  // slots; as long as events_
  std::size_t free_count_ = 0;
  std::optional<Rng> shuffle_;
  std::uint64_t sequence_ = 0;
};

}  // namespace vitro::sim
