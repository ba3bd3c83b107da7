// Texts by number, each kept once: names in traces repeat by the million.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vitro {

class TextTable {
 public:
  using Id = std::uint32_t;

  // The same text has the same number; numbers count up from 0.
  Id add(std::string_view text) {
    const auto hash = static_cast<std::uint64_t>(std::hash<std::string_view>{}(text));
    Slot* slot = &place_of(hash, [&](Id id) { return texts_[id].text == text; });
    if (slot->id != kNone) return slot->id;
    if (kLeastSlotsPerText * (texts_.size() + 1) > slots_.size()) {
      grow();
      slot = &place_of(hash, [](Id) { return false; });
    }
    *slot = {upper(hash), static_cast<Id>(texts_.size())};
    texts_.push_back({hash, std::string(text)});
    return slot->id;
  }
  const std::string& operator[](Id id) const { return texts_[id].text; }

 private:
  static constexpr Id kNone = ~Id{0};
  static constexpr std::size_t kLeastSlotsPerText = 2;
  // By the lower bits of a text's hash, or in the next free place behind. A table of millions of texts is in no cache, so a slot has the
  // upper bits as well: a text is looked at only if it is most likely the same.
  struct Slot {
    std::uint32_t upper = 0;
    Id id = kNone;
  };
  struct Text {
    std::uint64_t hash = 0;
    std::string text;
  };
  static std::uint32_t upper(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  // Where the text of that hash is, or would be.
  template <class IsSame>
  Slot& place_of(std::uint64_t hash, IsSame is_same) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
      Slot& slot = slots_[i];
      if (slot.id == kNone || (slot.upper == upper(hash) && is_same(slot.id))) return slot;
    }
  }

  void grow() {
    slots_.assign(2 * slots_.size(), {});
    for (Id id = 0; id < texts_.size(); ++id) {
      const std::uint64_t hash = texts_[id].hash;
      place_of(hash, [](Id) { return false; }) = {upper(hash), id};
    }
  }

  std::deque<Text> texts_;  // a deque: they do not move
  std::vector<Slot> slots_ = std::vector<Slot>(64);  // a power of two
};

}  // namespace vitro
