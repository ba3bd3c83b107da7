#include "engine/graph/region.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/rng.hpp"
#include "tests/effort.hpp"

namespace vitro {
namespace {

// What a list does to a tensor; 0 where it writes nothing.
std::vector<int> moved(const CopyRegions& regions, const std::vector<int>& x, std::size_t n) {
  std::vector<int> y(n, 0);
  for (const CopyRegion& r : regions) {
    for (std::uint32_t i = 0; i < r.size[0]; ++i) {
      for (std::uint32_t j = 0; j < r.size[1]; ++j) {
        for (std::uint32_t k = 0; k < r.size[2]; ++k) y.at(r.dst.at({i, j, k})) = x.at(r.src.at({i, j, k}));
      }
    }
  }
  return y;
}

std::vector<int> numbered(std::size_t n) {
  std::vector<int> x(n);
  std::iota(x.begin(), x.end(), 1);
  return x;
}

std::size_t volume(const Extents& x) { return std::size_t{x[0]} * x[1] * x[2]; }

TEST(Region, rearrangements_are_what_their_names_say) {
  const std::vector<int> x = numbered(6);  // [2, 3]: 1 2 3, 4 5 6
  EXPECT_EQ(moved(reshaped({1, 2, 3}), x, 6), x);
  EXPECT_EQ(moved(transposed({1, 2, 3}, {0, 2, 1}), x, 6), (std::vector<int>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(moved(sliced({1, 2, 3}, {0, 0, 1}, {1, 1, 1}, {1, 2, 2}), x, 4), (std::vector<int>{2, 3, 5, 6}));
  EXPECT_EQ(moved(sliced({1, 1, 6}, {0, 0, 1}, {1, 1, 2}, {1, 1, 3}), x, 3), (std::vector<int>{2, 4, 6}));
  const std::vector<std::uint32_t> indices{1, 0, 1};
  EXPECT_EQ(moved(gathered({1, 2, 3}, 1, indices), x, 9), (std::vector<int>{4, 5, 6, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(moved(placed({1, 2, 3}, {1, 2, 5}, {0, 0, 2}), x, 10), (std::vector<int>{0, 0, 1, 2, 3, 0, 0, 4, 5, 6}));
}

TEST(Region, what_moves_nothing_is_one_loop_over_everything) {
  EXPECT_TRUE(is_identity(reshaped({4, 5, 6}), 120));
  EXPECT_FALSE(is_identity(reshaped({4, 5, 6}), 121)) << "a part";
  EXPECT_FALSE(is_identity(transposed({4, 5, 6}, {1, 0, 2}), 120));
  EXPECT_TRUE(is_identity(transposed({1, 5, 6}, {1, 0, 2}), 30)) << "of one row";
  EXPECT_FALSE(is_identity(sliced({1, 1, 9}, {0, 0, 1}, {1, 1, 1}, {1, 1, 4}), 4)) << "begins elsewhere";
}

TEST(Region, a_transposition_and_its_inverse_move_nothing) {
  const auto both = fused(transposed({7, 4, 16}, {1, 0, 2}), transposed({4, 7, 16}, {1, 0, 2}));
  ASSERT_TRUE(both.has_value());
  EXPECT_TRUE(is_identity(*both, 7 * 4 * 16));
}

// The query of a product for all three: three rearrangements that each move all of it become one Region.
TEST(Region, the_split_of_a_fused_product_into_heads_is_one_region) {
  const std::uint32_t rows = 5, heads = 4, dim = 8, qkv = (heads + 2 * 2) * dim;
  const std::vector<CopyRegions> chain{sliced({1, rows, qkv}, {0, 0, 0}, {1, 1, 1}, {1, rows, heads * dim}), reshaped({rows, heads, dim}),
                                   transposed({rows, heads, dim}, {1, 0, 2})};
  const std::vector<CopyRegions> lists = fused_chain(chain);
  ASSERT_EQ(lists.size(), 1u);
  EXPECT_EQ(lists.front(), (CopyRegions{{{heads, rows, dim}, {0, {dim, qkv, 1}}, {0, {rows * dim, dim, 1}}}}));
}

TEST(Region, slices_that_are_joined_again_are_one_region) {
  CopyRegions parts = sliced({1, 3, 8}, {0, 0, 0}, {1, 1, 1}, {1, 3, 5});
  const CopyRegions left = *fused(parts, placed({1, 3, 5}, {1, 3, 8}, {0, 0, 0}));
  const CopyRegions right = *fused(sliced({1, 3, 8}, {0, 0, 5}, {1, 1, 1}, {1, 3, 3}), placed({1, 3, 3}, {1, 3, 8}, {0, 0, 5}));
  CopyRegions whole = left;
  whole.insert(whole.end(), right.begin(), right.end());
  const auto joined = fused(whole, reshaped({1, 3, 8}));
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(moved(*joined, numbered(24), 24), numbered(24));
  EXPECT_EQ(elements(*joined), 24u);
}

TEST(Region, a_gather_of_rows_that_are_evenly_apart_is_one_region) {
  const std::vector<std::uint32_t> even{0, 2, 4, 6}, odd{0, 2, 5, 6};
  EXPECT_EQ(gathered({1, 8, 3}, 1, even).size(), 1u);
  EXPECT_EQ(gathered({1, 8, 3}, 1, odd).size(), 2u);
}

TEST(Region, lists_that_would_take_too_many_regions_stay_apart) {
  std::vector<std::uint32_t> scattered;
  Rng rng(1);
  for (std::uint32_t i = 0; i < 3 * kMostRegions; ++i) scattered.push_back(static_cast<std::uint32_t>(rng.below(1000)));
  const std::vector<CopyRegions> chain{gathered({1, 1000, 2}, 1, scattered), transposed({1, 3 * kMostRegions, 2}, {0, 2, 1})};
  EXPECT_EQ(fused_chain(chain).size(), 2u);
}

TEST(Region, what_is_read_has_to_be_written) {
  EXPECT_FALSE(fused(placed({1, 1, 4}, {1, 1, 8}, {0, 0, 2}), reshaped({1, 1, 8})).has_value());
}

class RandomChain {
 public:
  explicit RandomChain(std::uint64_t seed) : rng_(seed) {
    for (std::uint32_t& n : shape) n = between(1, 6);
    source = shape;
    for (std::uint32_t count = between(2, 6); count > 0; --count) add();
  }

  Extents source{}, shape{};
  std::vector<CopyRegions> lists;
  std::vector<std::size_t> volumes;  // of what each list writes

 private:
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + static_cast<std::uint32_t>(rng_.below(high - low + 1)); }

  void add() {
    switch (rng_.below(5)) {
      case 0:
        transpose();
        break;
      case 1:
        slice();
        break;
      case 2:
        gather();
        break;
      case 3:
        concatenate();
        break;
      default:
        reshape();
    }
    volumes.push_back(volume(shape));
  }
  void transpose() {
    std::array<std::uint8_t, 3> axes{0, 1, 2};
    for (std::size_t i = 2; i > 0; --i) std::swap(axes[i], axes[rng_.below(i + 1)]);
    lists.push_back(transposed(shape, axes));
    shape = {shape[axes[0]], shape[axes[1]], shape[axes[2]]};
  }
  void slice() {
    Extents first{}, step{}, count{};
    for (std::size_t i = 0; i < 3; ++i) {
      first[i] = static_cast<std::uint32_t>(rng_.below(shape[i]));
      step[i] = between(1, 2);
      count[i] = between(1, (shape[i] - first[i] + step[i] - 1) / step[i]);
    }
    lists.push_back(sliced(shape, first, step, count));
    shape = count;
  }
  void gather() {
    const std::size_t axis = rng_.below(3);
    std::vector<std::uint32_t> indices(between(1, 6));
    for (std::uint32_t& index : indices) index = static_cast<std::uint32_t>(rng_.below(shape[axis]));
    lists.push_back(gathered(shape, axis, indices));
    shape[axis] = static_cast<std::uint32_t>(indices.size());
  }
  // Two parts of the tensor, or twice the same, side by side.
  void concatenate() {
    const std::size_t axis = rng_.below(3);
    Extents part = shape, whole = shape, at{}, first{};
    part[axis] = between(1, shape[axis]);
    whole[axis] = 2 * part[axis];
    at[axis] = part[axis];
    CopyRegions list;
    for (int side = 0; side < 2; ++side) {
      first[axis] = static_cast<std::uint32_t>(rng_.below(shape[axis] - part[axis] + 1));
      CopyRegion region = sliced(shape, first, {1, 1, 1}, part).front();
      region.size = part;
      region.src.stride = {shape[1] * shape[2], shape[2], 1};
      region.dst.stride = {whole[1] * whole[2], whole[2], 1};
      if (side == 1) region.dst.offset = at[0] * region.dst.stride[0] + at[1] * region.dst.stride[1] + at[2];
      list.push_back(region);
    }
    lists.push_back(list);
    shape = whole;
  }
  // The same elements under any extents whose product is theirs.
  void reshape() {
    lists.push_back(reshaped(shape));
    const auto n = static_cast<std::uint32_t>(volume(shape));
    std::vector<Extents> choices;
    for (std::uint32_t a = 1; a <= n; ++a) {
      for (std::uint32_t b = 1; n % a == 0 && b <= n / a; ++b) {
        if (n / a % b == 0) choices.push_back({a, b, n / a / b});
      }
    }
    shape = choices[rng_.below(choices.size())];
  }
  Rng rng_;
};

TEST(Region, a_fused_chain_moves_the_same_elements_and_never_more_of_them) {
  std::size_t before = 0, after = 0;
  for (std::uint64_t seed = 1; seed <= test::all_or_few(4000u, 400u); ++seed) {
    const RandomChain chain(seed);
    const std::vector<int> x = numbered(volume(chain.source));
    std::vector<int> expected = x;
    std::uint64_t unfused = 0, fused_elements = 0;
    for (std::size_t i = 0; i < chain.lists.size(); ++i) {
      expected = moved(chain.lists[i], expected, chain.volumes[i]);
      unfused += elements(chain.lists[i]);
    }
    const std::vector<CopyRegions> lists = fused_chain(chain.lists);
    std::vector<int> got = x;
    for (const CopyRegions& list : lists) {
      std::uint64_t end = 0;
      for (const CopyRegion& region : list) end = std::max(end, region.last(region.dst) + 1);
      got = moved(list, got, end);
      fused_elements += elements(list);
    }
    ASSERT_EQ(got, expected) << "seed " << seed;
    ASSERT_LE(fused_elements, unfused) << "seed " << seed;
    before += chain.lists.size(), after += lists.size();
  }
  EXPECT_LT(after, before / 2) << "most chains become one list";
}

}  // namespace
}  // namespace vitro
