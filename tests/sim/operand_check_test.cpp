#include "sim/operand_check.hpp"

#include <gtest/gtest.h>

#include "engine/base/check.hpp"

namespace vitro::sim {
namespace {

View floats(std::vector<float>& bytes, std::array<std::uint32_t, 3> shape, std::uint64_t id) {
  View view;
  view.shape = shape;
  view.memory = Lease(std::make_shared<Block>(
      Block{Placement::dram, Region::fixed, bytes.size() * sizeof(float), reinterpret_cast<std::byte*>(bytes.data()), id}));
  return view;
}

IndexList list(std::vector<std::uint32_t> ids) { return std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)); }

// Rows of 16 floats fill one place each; a cache of 8 places holds rows 1 and 5 of a matrix of 6.
struct PlacedCall {
  std::vector<float> cache = std::vector<float>(8 * 16), h = std::vector<float>(6), y = std::vector<float>(16);
  KernelCall call;
  PlacedCall() {
    call.op = ops::Accumulate{};
    call.in = {floats(cache, {6, 16, 0}, 1), floats(h, {1, 6, 0}, 2)};
    call.out = {floats(y, {1, 16, 0}, 3)};
    call.rows = list({1, 5});
    call.row_offsets = list({7, 2});
  }
  bool notices(float& written) {
    const std::vector<OperandSums> sums = sum_operands({call});
    written += 1;
    try {
      check_operands(call, sums.at(0), "cpu0");
    } catch (const RunError&) {
      return true;
    }
    return false;
  }
};

TEST(OperandCheck, of_rows_in_places_the_named_ones_are_watched_wherever_they_stand) {
  PlacedCall placed;
  for (std::size_t place = 0; place < 8; ++place) {
    EXPECT_EQ(placed.notices(placed.cache[place * 16 + 3]), place == 7 || place == 2) << place;
  }
  EXPECT_TRUE(placed.notices(placed.h[0]));
}

// A neuron may stand behind the bytes that the matrix would take by itself: the chain may write there too.
TEST(OperandCheck, a_call_that_writes_into_the_cache_is_seen_behind_the_matrix) {
  PlacedCall placed;
  KernelCall writes;
  writes.op = ops::Copy{};
  writes.in = {floats(placed.y, {1, 16, 0}, 3)};
  View into = placed.call.in[0];
  into.offset = 7 * 64;
  into.shape = {1, 16, 0};
  writes.out = {into};
  const std::vector<OperandSums> sums = sum_operands({writes, placed.call});
  ASSERT_EQ(sums.at(1).size(), 1u);
  EXPECT_EQ(sums.at(1)[0].operand, 1u);
}

// What landed is watched where it landed, and what its copy writes may be anywhere in the cache.
TEST(OperandCheck, a_copy_between_places_is_watched_at_its_rows_and_may_write_anywhere) {
  PlacedCall placed;
  std::vector<float> landed(4 * 16);
  KernelCall copies;
  copies.op = ops::Copy{};
  copies.in = {floats(landed, {1, 16, 0}, 4)};
  copies.out = {floats(placed.cache, {1, 16, 0}, 1)};
  copies.rows = list({3});
  copies.row_offsets = list({7});
  for (std::size_t place = 0; place < 4; ++place) {
    const std::vector<OperandSums> sums = sum_operands({copies});
    landed[place * 16] += 1;
    if (place == 3) {
      EXPECT_THROW(check_operands(copies, sums.at(0), "cpu0"), RunError);
    } else {
      EXPECT_NO_THROW(check_operands(copies, sums.at(0), "cpu0"));
    }
  }
  const std::vector<OperandSums> sums = sum_operands({copies, placed.call});
  ASSERT_EQ(sums.at(1).size(), 1u) << "weights that the chain has just brought are no longer those of the sum";
  EXPECT_EQ(sums.at(1)[0].operand, 1u);
}

}  // namespace
}  // namespace vitro::sim
