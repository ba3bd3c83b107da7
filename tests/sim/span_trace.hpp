// What a run traced, for tests to look at.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/machine/trace.hpp"

namespace vitro::sim {

struct Written {
  Picoseconds begin, end;
  std::string track, name;
};

class SpanTrace final : public TraceSink {
 public:
  bool enabled() const override { return true; }
  TrackId track(std::string_view group, std::string_view name) override {
    tracks_.push_back(std::string(group) + "/" + std::string(name));
    return TrackId(tracks_.size() - 1);
  }
  void span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view) override {
    spans.push_back({begin, end, tracks_[static_cast<std::size_t>(track)], std::string(name)});
  }
  void counter(TrackId track, Picoseconds, double value) override { counters[tracks_[static_cast<std::size_t>(track)]].push_back(value); }
  void decision(std::string_view, std::string_view, std::string_view) override {}

  std::vector<Written> spans;
  std::map<std::string, std::vector<double>> counters;

 private:
  std::vector<std::string> tracks_;
};

}  // namespace vitro::sim
