// Texts by number, each kept once: names in traces repeat by the million.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vitro {

class TextTable {
 public:
  using Id = std::uint32_t;

  TextTable() = default;
  TextTable(const TextTable&) = delete;  // its keys point into its texts
  TextTable& operator=(const TextTable&) = delete;

  // The same text has the same number; numbers count up from 0.
  Id add(std::string_view text) {
    const auto known = ids_.find(text);
    if (known != ids_.end()) return known->second;
    const auto id = static_cast<Id>(texts_.size());
    texts_.emplace_back(text);
    ids_.emplace(texts_.back(), id);
    return id;
  }
  const std::string& operator[](Id id) const { return texts_[id]; }

 private:
  std::deque<std::string> texts_;  // a deque: the keys below point into it
  std::unordered_map<std::string_view, Id> ids_;
};

}  // namespace vitro
