// What is resident by the decision log alone: pages of weights that are paged, and whole experts in slots.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/machine/trace.hpp"

namespace vitro {

class ShadowDecisions final : public TraceSink {
 public:
  // How many were decided.
  struct Loads {
    std::uint64_t pages = 0, neurons = 0, experts = 0, foreseen = 0;
    std::map<std::string, std::uint64_t> matrices;  // that are streamed, by name
  };

  bool enabled() const override { return true; }
  TrackId track(std::string_view, std::string_view) override { return TrackId{}; }
  void span(TrackId, Picoseconds, Picoseconds, std::string_view, std::string_view) override {}
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view kind, std::string_view what, std::string_view where) override;

  void room_for_pages(std::uint64_t pages) { page_room_ = pages; }  // 0: whatever memory leaves
  // Another engine: nothing is resident.
  void begin_anew();
  // A phase failed: pages that were to come may be forgotten, and nothing says which.
  void pages_are_unsure() { pages_.clear(), unsure_ = true; }

  const Loads& loads() const { return loads_; }
  std::uint64_t most_experts() const { return most_experts_; }  // of one matrix of theirs, over all layers, at any time
  std::uint64_t count() const { return count_; }
  const std::vector<std::string>& findings() const { return findings_; }

 private:
  void page(std::string_view kind, std::string_view what);
  void expert(std::string_view kind, const std::string& what);
  void found(std::string what);

  Loads loads_;
  std::set<std::uint64_t> pages_;
  bool unsure_ = false;
  std::uint64_t page_room_ = 0, most_experts_ = 0, count_ = 0;
  std::map<std::string, std::set<std::string>> experts_;  // by matrix, without its layer
  std::vector<std::string> findings_;
};

}  // namespace vitro
