// Numbers of 16 bits as files have them: the lower byte first, at any address.
#pragma once
#include <cstddef>
#include <cstdint>

namespace vitro {

inline std::uint16_t load16(const std::byte* p) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(p[0]) | std::to_integer<unsigned>(p[1]) << 8);
}

inline void store16(std::byte* p, std::uint16_t value) {
  p[0] = static_cast<std::byte>(value & 0xff);
  p[1] = static_cast<std::byte>(value >> 8);
}

}  // namespace vitro
