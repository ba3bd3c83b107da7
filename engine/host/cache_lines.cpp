#include "engine/host/cache_lines.hpp"

#include <cstdint>

namespace vitro {

#if defined(__aarch64__)

namespace {

// The smallest line of all data caches on the way (CTR_EL0.DminLine, in words as a power of two).
std::uintptr_t line_bytes() {
  std::uint64_t type;
  asm("mrs %0, ctr_el0" : "=r"(type));
  return std::uintptr_t{4} << (type >> 16 & 15);
}

template <class Maintain>
void for_lines(const void* begin, std::size_t bytes, Maintain maintain) {
  static const std::uintptr_t line = line_bytes();
  const auto end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  for (std::uintptr_t at = reinterpret_cast<std::uintptr_t>(begin) & ~(line - 1); at < end; at += line) maintain(at);
  asm volatile("dsb sy" ::: "memory");  // for observers that are no CPU, too
}

}  // namespace

void clean_cache_lines(const void* begin, std::size_t bytes) {
  for_lines(begin, bytes, [](std::uintptr_t at) { asm volatile("dc cvac, %0" : : "r"(at) : "memory"); });
}

void invalidate_cache_lines(const void* begin, std::size_t bytes) {
  for_lines(begin, bytes, [](std::uintptr_t at) { asm volatile("dc civac, %0" : : "r"(at) : "memory"); });
}

#else

void clean_cache_lines(const void*, std::size_t) {}
void invalidate_cache_lines(const void*, std::size_t) {}

#endif

}  // namespace vitro
