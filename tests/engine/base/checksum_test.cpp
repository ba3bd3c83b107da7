#include "engine/base/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

std::vector<std::byte> drawn(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  return bytes;
}

TEST(Checksum, changes_with_each_bit_of_any_length) {
  for (const std::size_t size : {1, 7, 8, 31, 32, 33, 100, 4096}) {
    std::vector<std::byte> bytes = drawn(size, size);
    const std::uint64_t sum = checksum(bytes);
    std::set<std::uint64_t> others{sum};
    std::size_t flips = 0;
    for (std::size_t at = 0; at < size; at += size > 100 ? 37 : 1) {
      for (int bit = 0; bit < 8; ++bit) {
        bytes[at] ^= static_cast<std::byte>(1 << bit);
        others.insert(checksum(bytes));
        bytes[at] ^= static_cast<std::byte>(1 << bit);
        ++flips;
      }
    }
    EXPECT_EQ(others.size(), flips + 1) << size;
    EXPECT_EQ(checksum(bytes), sum);
  }
}

TEST(Checksum, tells_words_in_another_order_and_zeros_of_another_length_apart) {
  std::vector<std::byte> bytes = drawn(256, 5);
  const std::uint64_t sum = checksum(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 8);  // of two lanes
  EXPECT_NE(checksum(bytes), sum);
  bytes = drawn(256, 5);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 32);  // of one lane
  EXPECT_NE(checksum(bytes), sum);
  std::set<std::uint64_t> zeros;
  for (std::size_t size = 0; size < 100; ++size) zeros.insert(checksum(std::vector<std::byte>(size)));
  EXPECT_EQ(zeros.size(), 100u);
}

TEST(Checksum, is_the_same_wherever_the_bytes_lie) {
  const std::vector<std::byte> bytes = drawn(1000, 7);
  std::vector<std::byte> moved(1007);
  for (std::size_t by = 0; by < 7; ++by) {
    std::ranges::copy(bytes, moved.begin() + static_cast<std::ptrdiff_t>(by));
    EXPECT_EQ(checksum(std::span(moved).subspan(by, bytes.size())), checksum(bytes));
  }
}

}  // namespace
}  // namespace vitro
