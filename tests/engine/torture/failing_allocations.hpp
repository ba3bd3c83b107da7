// What allocation_test.cpp's operator new counts, in a process with one thread, and which one of them fails.
#pragma once
#include <cstdint>

namespace vitro::test {

inline constexpr std::uint64_t kNone = ~std::uint64_t{0};
extern bool counts;
extern std::uint64_t allocations, failing;

}  // namespace vitro::test
