#include "engine/base/checksum.hpp"

#include <array>
#include <cstring>

namespace vitro {
namespace {

constexpr std::size_t kLanes = 8, kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;  // 2^64 by the golden ratio, odd

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, kWord);
  return word;
}

std::uint64_t taken(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * kFactor;
  return state ^ state >> 29;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4, 5, 6, 7, 8};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kLanes * kWord; left -= kLanes * kWord, at += kLanes * kWord) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = taken(lanes[lane], word_at(at + lane * kWord));
  }
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t lane : lanes) sum = taken(sum, lane);
  for (; left >= kWord; left -= kWord, at += kWord) sum = taken(sum, word_at(at));
  std::uint64_t last = 0;
  if (left > 0) std::memcpy(&last, at, left);
  return taken(sum, last);
}

}  // namespace vitro
