// Which resident block goes first when a cache is full. Pure bookkeeping over block numbers, deterministic.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace vitro {

class Eviction {
 public:
  virtual ~Eviction() = default;

  virtual void insert(std::uint32_t block) = 0;  // Requires: not resident. It counts as used now.
  virtual void touch(std::uint32_t block) = 0;   // Requires: resident
  virtual void erase(std::uint32_t block) = 0;   // Requires: resident
  // The resident block that should go, of those that `held` does not hold back; none when it holds all of them back.
  virtual std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) = 0;
};

// "lru": least recently used (PowerInfer-2, section 4.2). "lfu": least frequently used since it came, ties by recency.
// "arc": recency and frequency in balance, steered by hits on blocks that just went (Megiddo and Modha, FAST 2003).
// Throws ConfigError for another name. `blocks`: numbers are below it; `capacity`: how many are resident at most.
std::unique_ptr<Eviction> make_eviction(std::string_view name, std::uint32_t blocks, std::uint32_t capacity);
std::vector<std::string_view> eviction_names();

// The bound that no policy beats: how many of `accesses` hit a cache of `capacity` blocks that always gives up what is used
// again last (Belady 1966). A block is loaded on every miss.
std::uint64_t belady_hits(std::span<const std::uint32_t> accesses, std::uint32_t capacity);

}  // namespace vitro
