#include "engine/parts/ffn/experts/graph_residency.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

// Layers of lone experts in graphs of their own, all on the first unit.
std::vector<LayerPlacement> lone(const std::vector<LayerLoad>& loads) {
  std::vector<LayerPlacement> layers;
  for (const LayerLoad& load : loads) {
    std::vector<StaticGroup> groups;
    for (std::uint16_t e = 0; e < load.expected.size(); ++e) groups.push_back({{e}, load.capacity[e], 0, 0, false});
    layers.push_back(lay_out(std::move(groups), load.expected.size()));
  }
  return layers;
}

const std::vector<LayerLoad> kTwoLayers{{{10, 40}, {16, 48}, {}}, {{30, 20}, {32, 32}, {}}};

TEST(GraphResidency, the_hottest_groups_of_all_layers_stay) {
  const ResidentSet set = choose_resident(lone(kTwoLayers), kTwoLayers, 100, {{2, ~Bytes{0}, 0}});
  EXPECT_EQ(set.layers[0].capacity, (std::vector<std::uint32_t>{0, 48}));
  EXPECT_EQ(set.layers[1].capacity, (std::vector<std::uint32_t>{32, 0}));
  EXPECT_EQ(set.held, 2u);
  EXPECT_EQ(set.left, 2u);
  EXPECT_DOUBLE_EQ(set.left_share, 0.3);
  EXPECT_EQ(set.layers[0].rows, 48u);
}

TEST(GraphResidency, bytes_are_a_limit_of_their_own) {
  const ResidentSet set = choose_resident(lone(kTwoLayers), kTwoLayers, 100, {{128, 150, 0}, {128, 50, 0}});
  EXPECT_EQ(set.held, 1u);
  EXPECT_EQ(set.layers[0].groups.front().unit, 0u);
  EXPECT_EQ(set.layers[0].groups.front().experts.front(), 1u);
}

TEST(GraphResidency, what_does_not_fit_comes_where_graphs_are_kept_spare) {
  const ResidentSet set = choose_resident(lone(kTwoLayers), kTwoLayers, 100, {{3, ~Bytes{0}, 1}});
  EXPECT_EQ(set.held, 2u);
  EXPECT_EQ(set.coming, 2u);
  EXPECT_EQ(set.left, 0u);
  EXPECT_EQ(set.layers[0].capacity, (std::vector<std::uint32_t>{16, 48}));
}

TEST(GraphResidency, no_unit_holds_more_than_it_takes_and_the_units_share_each_layer) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto layers = static_cast<std::uint32_t>(1 + rng.below(32)), experts = static_cast<std::uint32_t>(2 + rng.below(15));
    std::vector<LayerLoad> loads(layers);
    for (LayerLoad& load : loads) {
      for (const double share : shares(rng, experts)) load.expected.push_back(share * 512);
      load.capacity.assign(experts, 64);
    }
    std::vector<UnitRoom> rooms(1 + rng.below(3));
    std::uint64_t places = 0;
    for (UnitRoom& room : rooms) {
      room.graphs = static_cast<std::uint32_t>(rng.below(200));
      places += room.graphs;
    }
    const ResidentSet set = choose_resident(lone(loads), loads, 100, rooms);
    EXPECT_EQ(set.held, std::min<std::uint64_t>(places, layers * experts));
    EXPECT_EQ(set.held + set.left, layers * experts);
    std::map<std::uint32_t, std::uint32_t> on;
    double coolest = 1e9, hottest_left = 0;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      for (const StaticGroup& group : set.layers[layer].groups) ++on[group.unit];
      for (std::size_t e = 0; e < experts; ++e) {
        double& edge = set.layers[layer].capacity[e] > 0 ? coolest : hottest_left;
        edge = set.layers[layer].capacity[e] > 0 ? std::min(edge, loads[layer].expected[e]) : std::max(edge, loads[layer].expected[e]);
      }
    }
    for (const auto& [unit, graphs] : on) EXPECT_LE(graphs, rooms[unit].graphs);
    EXPECT_GE(coolest, hottest_left);
  }
}

}  // namespace
}  // namespace vitro
