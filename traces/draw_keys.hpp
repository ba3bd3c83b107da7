// Keys of draws: which bits each purpose takes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

// First part of every key: draws for different purposes never share bits.
enum Purpose : std::uint64_t {
  kNeuron = 1,
  kNeuronRank,
  kExpert,
  kExpertRank,
  kToken,
  kPhase,
  kRepeat,
  kStretch,
  kMiss,
  kAlarm,
  kTask,
  kActivity,
  kForesight,
};

inline std::uint64_t key_word(std::int16_t value) { return static_cast<std::uint16_t>(value); }

// Items in an order that is itself drawn: popular neurons are scattered over a layer.
inline void shuffle(std::vector<std::uint32_t>& items, std::uint64_t key) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> draws;
  draws.reserve(items.size());
  for (const std::uint32_t item : items) draws.emplace_back(mix(key, {item}), item);
  std::sort(draws.begin(), draws.end());
  std::transform(draws.begin(), draws.end(), items.begin(), [](const auto& draw) { return draw.second; });
}

inline std::vector<std::uint32_t> up_to(std::uint32_t n) {
  std::vector<std::uint32_t> items(n);
  std::iota(items.begin(), items.end(), 0u);
  return items;
}

}  // namespace vitro
