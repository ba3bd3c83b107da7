// Maintenance by address loses nothing that was written, whatever it begins and ends with. The emulated aarch64 executes the instructions.
#include "engine/host/cache_lines.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace vitro::test {
namespace {

TEST(CacheLines, keep_what_was_written_in_them_and_beside_them) {
#if !defined(__aarch64__)
  GTEST_SKIP() << "caches are coherent here, and nothing is done";
#endif
  for (std::size_t first = 0; first < 130; first += 13) {
    std::array<std::uint8_t, 512> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + first);
    invalidate_cache_lines(bytes.data() + first, 300);
    clean_cache_lines(bytes.data() + first, 300);
    clean_cache_lines(bytes.data() + first, 0);
    for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<std::uint8_t>(i * 7 + first)) << first << " " << i;
  }
}

}  // namespace
}  // namespace vitro::test
