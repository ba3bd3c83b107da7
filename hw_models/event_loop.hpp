// EventLoop: a Context without a simulator. Virtual time and a heap, for characterisation runs of single models.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/base/hash.hpp"
#include "hw_models/context.hpp"

namespace vitro::hw {

class EventLoop final : public Context {
 public:
  explicit EventLoop(std::uint64_t seed = 1) : seed_(seed) {}

  Picoseconds now() const override { return now_; }
  void at(Picoseconds when, Label, Callback action) override {
    VITRO_CHECK(when >= now_, "an event in the past");
    events_.push_back({when, sequence_++, action});
    std::push_heap(events_.begin(), events_.end(), later);
  }
  std::uint16_t device(std::string_view) override { return ++devices_; }
  Rng& rng(std::string_view stream) override {
    Hash name;
    name.add(stream);
    return streams_.try_emplace(std::string(stream), mix(seed_, {name.value()})).first->second;
  }
  bool tracing() const override { return spans_ != nullptr; }
  Track track(std::string_view, std::string_view) override { return {}; }
  void span(Track, Picoseconds begin, Picoseconds end, std::string_view name) override {
    if (spans_ != nullptr) spans_->push_back({begin, end, std::string(name)});
  }
  void counter(Track, double) override {}

  struct Span {
    Picoseconds begin, end;
    std::string name;
  };
  void trace_into(std::vector<Span>* spans) { spans_ = spans; }  // which outlives the loop, or the next call

  bool empty() const { return events_.empty(); }
  Picoseconds next() const { return events_.front().when; }  // Requires: not empty()
  void step() {                                              // Requires: not empty()
    std::pop_heap(events_.begin(), events_.end(), later);
    Event event = events_.back();
    events_.pop_back();
    now_ = event.when;
    event.action();
  }
  void run_until(Picoseconds when) {
    while (!events_.empty() && events_.front().when <= when) step();
    now_ = when;
  }

 private:
  struct Event {
    Picoseconds when;
    std::uint64_t sequence;
    Callback action;
  };
  static bool later(const Event& a, const Event& b) { return a.when != b.when ? a.when > b.when : a.sequence > b.sequence; }

  std::uint64_t seed_;
  std::vector<Span>* spans_ = nullptr;
  Picoseconds now_{0};
  std::vector<Event> events_;
  std::uint64_t sequence_ = 0;
  std::uint16_t devices_ = 0;
  std::map<std::string, Rng, std::less<>> streams_;
};

}  // namespace vitro::hw
