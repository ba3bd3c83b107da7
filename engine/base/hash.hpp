// FNV-1a, for event hashes, checksums of operands and cache keys. Not cryptographic.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vitro {

class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) state_ = (state_ ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // Eight bytes in one step: used per simulated event, where a byte loop would show.
  void add(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 29;
  }
  std::uint64_t value() const { return state_; }
  std::string hex() const;

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace vitro
