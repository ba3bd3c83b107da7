#include "engine/parts/ffn/neuron_cluster/cluster.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/check.hpp"
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

TEST(Cluster, an_answer_with_neurons_that_there_are_not_is_an_error) {
  const auto row = [](Ids ids) { return std::make_shared<const Ids>(std::move(ids)); };
  EXPECT_NO_THROW(check_active({row({}), row({8, 15})}, 8, 16));
  EXPECT_NO_THROW(check_active({row({})}, 0, 0));
  EXPECT_THROW(check_active({row({8}), row({7, 9})}, 8, 16), RunError);
  EXPECT_THROW(check_active({row({9, 16})}, 8, 16), RunError);
  EXPECT_THROW(check_active({row({9, 700, 12})}, 8, 16), RunError) << "between the first and the last";
  EXPECT_THROW(check_active({row({9, 9})}, 8, 16), RunError);
}

}  // namespace
}  // namespace vitro
