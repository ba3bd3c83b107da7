#include "engine/parts/ffn/neuron_cluster/cluster.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

using Ids = std::vector<std::uint32_t>;

TEST(Cluster, rows_are_united_as_sets_are) {
  Rng rng(1);
  for (int trial = 0; trial < 300; ++trial) {
    const auto first = static_cast<std::uint32_t>(rng.below(200)), range = 1 + static_cast<std::uint32_t>(rng.below(300));
    std::vector<IndexList> rows;
    std::set<std::uint32_t> all;
    for (std::uint64_t row = 0, count = rng.below(5); row < count; ++row) {
      std::set<std::uint32_t> ids;
      for (std::uint64_t i = 0, some = rng.below(40); i < some; ++i) ids.insert(first + static_cast<std::uint32_t>(rng.below(range)));
      rows.push_back(std::make_shared<const Ids>(ids.begin(), ids.end()));
      all.insert(ids.begin(), ids.end());
    }
    ASSERT_EQ(*united(rows), Ids(all.begin(), all.end())) << trial;
  }
}

TEST(Cluster, a_row_alone_is_handed_on) {
  const IndexList row = std::make_shared<const Ids>(Ids{3, 64, 700});
  EXPECT_EQ(united({row}), row);
}

}  // namespace
}  // namespace vitro
