// MapFetcher: the map cache and the few fetches of map pages that a controller has under way. Commands that need a page
// which is being fetched share the fetch.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

#include "engine/base/check.hpp"
#include "hw_models/ufs/map_cache.hpp"

namespace vitro::hw {

class MapFetcher {
 public:
  // `fetch(segment)` starts a fetch; its end is told to arrived(). `mapped(command)` lets a command go on that had to wait.
  MapFetcher(Bytes reach, std::uint32_t fetches, std::function<void(std::uint64_t)> fetch, std::function<void(std::uint32_t)> mapped)
      : cache_(reach), fetches_(fetches), fetch_(std::move(fetch)), mapped_(std::move(mapped)) {}

  // True when the command can go on at once. A command that runs into the next segment finds that one fetched ahead.
  bool look_up(std::uint32_t command, std::uint64_t address) {
    const std::uint64_t segment = address / MapCache::kSegment;
    const bool misses = cache_.misses(address);
    if (const auto found = pending(segment); found != pending_.end()) return found->commands.push_back(command), false;
    if (!misses) return true;
    if (spare_.empty()) spare_.emplace_back();
    pending_.push_back({segment, std::move(spare_.back())});
    spare_.pop_back();
    pending_.back().commands.push_back(command);
    queue_.push_back(segment);
    start();
    return false;
  }

  // A sequential stream passes here; its map comes with its data.
  void pass(std::uint64_t address) { cache_.misses(address); }

  std::uint32_t active() const { return active_; }  // fetches under way

  void arrived(std::uint64_t segment) {
    const auto found = pending(segment);
    VITRO_CHECK(found != pending_.end() && active_ > 0, "a map page came that nobody fetched");
    std::vector<std::uint32_t> commands = std::move(found->commands);
    pending_.erase(found);
    --active_;
    start();
    for (const std::uint32_t command : commands) mapped_(command);
    commands.clear();
    spare_.push_back(std::move(commands));
  }

 private:
  struct Fetch {
    std::uint64_t segment = 0;
    std::vector<std::uint32_t> commands;  // that wait for it
  };
  std::vector<Fetch>::iterator pending(std::uint64_t segment) { return std::ranges::find(pending_, segment, &Fetch::segment); }

  void start() {
    if (active_ == fetches_ || queue_.empty()) return;
    ++active_;
    const std::uint64_t segment = queue_.front();
    queue_.pop_front();
    fetch_(segment);
  }

  MapCache cache_;
  std::uint32_t fetches_, active_ = 0;
  std::function<void(std::uint64_t)> fetch_;
  std::function<void(std::uint32_t)> mapped_;
  std::vector<Fetch> pending_;                     // few: no more than commands in the device
  std::vector<std::vector<std::uint32_t>> spare_;  // empty, kept for their memory
  std::deque<std::uint64_t> queue_;                // segments whose fetch has not started
};

}  // namespace vitro::hw
