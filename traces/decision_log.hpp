// The decisions of a run, kept in memory and written as lines of JSON.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "traces/text_table.hpp"

namespace vitro {

// Not thread-safe. Behind the limit further decisions are counted and dropped, and what is written says so.
class DecisionLog {
 public:
  explicit DecisionLog(std::size_t limit) : limit_(limit) {}

  void add(std::string_view kind, std::string_view what, std::string_view where);
  std::size_t dropped() const { return dropped_; }
  std::string jsonl() const;  // docs/guide/traces.md
  void write(const std::string& path) const;  // throws RunError, never leaves half a file

 private:
  struct Decision {
    TextTable::Id kind, what, where;
  };

  std::size_t limit_, dropped_ = 0;
  TextTable texts_;
  std::deque<Decision> decisions_;
};

}  // namespace vitro
