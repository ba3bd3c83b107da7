// A context without a simulator: virtual time and a heap, for laws of single models.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hw_models/context.hpp"

namespace vitro::hw {

class TestContext final : public Context {
 public:
  Picoseconds now() const override { return now_; }
  void at(Picoseconds when, Label, Callback action) override {
    VITRO_CHECK(when >= now_, "an event in the past");
    events_.emplace(std::pair(when, sequence_++), action);
  }
  std::uint16_t device(std::string_view) override { return ++devices_; }
  Rng& rng(std::string_view) override { return rng_; }
  bool tracing() const override { return true; }
  Track track(std::string_view group, std::string_view name) override {
    tracks_.push_back(std::string(group) + "/" + std::string(name));
    return Track(tracks_.size() - 1);
  }
  void span(Track, Picoseconds begin, Picoseconds end, std::string_view) override { spans.emplace_back(begin, end); }
  void counter(Track, double value) override { counters.push_back(value); }

  void run() {
    while (!events_.empty()) step();
  }
  void run_until(Picoseconds when) {
    while (!events_.empty() && events_.begin()->first.first <= when) step();
    now_ = when;
  }

  std::vector<std::pair<Picoseconds, Picoseconds>> spans;
  std::vector<double> counters;

 private:
  void step() {
    auto node = events_.extract(events_.begin());
    now_ = node.key().first;
    node.mapped()();
  }

  std::map<std::pair<Picoseconds, std::uint64_t>, Callback> events_;
  std::uint64_t sequence_ = 0;
  std::uint16_t devices_ = 0;
  Picoseconds now_{0};
  std::vector<std::string> tracks_;
  Rng rng_{1};
};

inline constexpr Picoseconds kNs{1000}, kUs{1'000'000}, kMs{1'000'000'000};

}  // namespace vitro::hw
