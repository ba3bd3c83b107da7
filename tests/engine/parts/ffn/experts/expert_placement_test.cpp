#include "engine/parts/ffn/experts/expert_placement.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/check.hpp"
#include "engine/parts/ffn/experts/layer_loads.hpp"
#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kEndless = ~0u;
const LayerLoad kLoad{{40, 20, 60, 30}, {64, 32, 64, 32}, {}};

// Four experts of 100 bytes in graphs of two, two units, chunks of 100 rows in shapes of 16.
PlaceOptions small(std::uint32_t layers) {
  PlaceOptions options{layers, 4, 100, 16, 100, {}};
  options.by_load.group = 2, options.by_load.units = 2, options.by_load.cold_rows = 16, options.by_load.launch_rows = 16;
  return options;
}

using Answers = std::vector<std::vector<ExpertGraph>>;

// Answers what it was given, layer by layer, and notes what it was told.
struct Told {
  std::vector<UnitRoom> rooms;
  std::size_t layer = 0;
  std::uint32_t rows = 0;
};
class Says final : public ExpertPlacement {
 public:
  Says(Answers answers, std::vector<Told>* told) : answers_(std::move(answers)), told_(told) {}
  std::vector<ExpertGraph> place(const LayerToPlace& at) override {
    if (told_ != nullptr) told_->push_back({at.rooms, at.layer, at.rows});
    return answers_.at(at.layer);
  }

 private:
  Answers answers_;
  std::vector<Told>* told_;
};

PlaceRule says(Answers answers, std::vector<Told>* told = nullptr) {
  return {"mine", "", [=](const PlaceOptions&) -> std::unique_ptr<ExpertPlacement> { return std::make_unique<Says>(answers, told); }};
}

std::string problem(const PlaceRule& rule, std::size_t layers, std::vector<UnitRoom> rooms = {{}, {}}, std::uint32_t rows = 400) {
  ExpertPlacer placer(rule, small(static_cast<std::uint32_t>(layers)));
  try {
    placer.place(std::vector<LayerLoad>(layers, kLoad), std::move(rooms), rows);
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

TEST(ExpertPlacement, a_rule_that_names_units_has_its_graphs_there) {
  std::vector<Told> told;
  ExpertPlacer placer(says({{{{2, 0}, 48, 1}, {{3}, 16, 0}}, {}}, &told), small(2));
  const std::vector<LayerPlacement> layers = placer.place({kLoad, kLoad}, {{5, 250, 0}, {5, 250, 0}}, 400);
  EXPECT_TRUE(placer.names_units());
  ASSERT_EQ(layers[0].groups.size(), 2u);
  EXPECT_EQ(layers[0].groups[1].unit, 1u);
  EXPECT_EQ(layers[0].groups[1].experts, (std::vector<std::uint16_t>{2, 0}));
  EXPECT_EQ(layers[0].capacity, (std::vector<std::uint32_t>{48, 0, 48, 16}));
  EXPECT_EQ(layers[0].rows, 112u);
  EXPECT_TRUE(layers[1].groups.empty());
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].rows, 400u);
  EXPECT_EQ(told[1].layer, 1u);
  EXPECT_EQ(told[1].rooms[0].graphs, 4u) << "what the first layer has is taken";
  EXPECT_EQ(told[1].rooms[1].bytes, 50u);
}

TEST(ExpertPlacement, a_rule_that_names_no_units_leaves_them_to_the_engine) {
  std::vector<Told> told;
  ExpertPlacer placer(says({{{{2, 0}, 48, {}}, {{3}, 16, {}}}, {{{1}, 32, {}}}}, &told), small(2));
  const std::vector<LayerPlacement> layers = placer.place({kLoad, kLoad}, {{1, 100, 0}, {}}, 10);
  EXPECT_FALSE(placer.names_units());
  EXPECT_NE(layers[0].groups[0].unit, layers[0].groups[1].unit) << "the second one on the unit without experts";
  EXPECT_EQ(told[1].rooms[0].graphs, 1u);
  EXPECT_EQ(told[1].rooms[1].graphs, 8u) << "no more than two layers of four experts could use";
  EXPECT_EQ(told[1].rooms[1].bytes, 800u);
}

TEST(ExpertPlacement, an_answer_that_is_not_possible_is_told_with_the_rule_and_the_layer) {
  const auto of = [](ExpertGraph graph, std::vector<UnitRoom> rooms = {{}, {}}, std::uint32_t rows = 400) {
    return problem(says({{}, {std::move(graph)}}), 2, std::move(rooms), rows);
  };
  const std::string begin = "the place policy mine: layer 1 has ";
  EXPECT_EQ(of({{}, 16, {}}), begin + "a graph without experts (expected graphs of one expert or more)");
  EXPECT_EQ(of({{0, 1, 2}, 16, {}}), begin + "a graph of 3 experts (expected at most 2)");
  EXPECT_EQ(of({{4}, 16, {}}), begin + "expert 4 in a graph (expected 0 to 3)");
  EXPECT_EQ(of({{1, 1}, 16, {}}), begin + "expert 1 twice (expected each expert once, or on cores)");
  EXPECT_EQ(of({{1, 2}, 0, {}}), begin + "slices of 0 rows for experts 1, 2 (expected 1 to 112, a multiple of 16)");
  EXPECT_EQ(of({{1}, 17, {}}), begin + "slices of 17 rows for experts 1 (expected 1 to 112, a multiple of 16)");
  EXPECT_EQ(of({{1}, 128, {}}), begin + "slices of 128 rows for experts 1 (expected 1 to 112, a multiple of 16)");
  EXPECT_EQ(of({{1}, 112, {}}), "") << "a whole chunk";
  EXPECT_EQ(of({{1}, 16, 2}), begin + "a graph on unit 2 (expected 0 to 1)");
  EXPECT_EQ(of({{1}, 16, 1}, {{}, {0, 400, 0}}), begin + "a graph on unit 1, which holds no more (expected another unit, or fewer graphs)");
  EXPECT_EQ(of({{1, 2}, 16, 1}, {{}, {4, 199, 0}}),
            begin + "a graph of 200 B on unit 1 (expected at most the 199 that the unit still holds)");
  EXPECT_EQ(of({{1, 2}, 32, 1}, {{}, {}}, 63), begin + "64 rows of slices (expected at most 63, for which there is memory)");
  const std::string mixed =
      "graphs with and without a unit, or an earlier layer has the other kind (expected units for all graphs, or for none)";
  EXPECT_EQ(problem(says({{{{1}, 16, {}}, {{2}, 16, 0}}}), 1), "the place policy mine: layer 0 has " + mixed);
  EXPECT_EQ(problem(says({{{{1}, 16, 0}}, {{{2}, 16, {}}}}), 2), begin + mixed);
  EXPECT_EQ(problem(says({{}, {{{0}, 16, {}}, {{1, 0}, 16, {}}}}), 2), begin + "expert 0 twice (expected each expert once, or on cores)");
}

TEST(ExpertPlacement, what_a_rule_throws_is_told_with_its_name) {
  EXPECT_NE(problem(says({{}}), 2).find("the place policy mine failed for layer 1: "), std::string::npos) << problem(says({{}}), 2);
}

TEST(ExpertPlacement, by_load_is_the_placement_by_load) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(63));
    TierRule tiers;
    tiers.multiple = 16, tiers.chunk = 256;
    PlaceOptions options{2, experts, tiers.chunk, tiers.multiple, 100, {}};
    options.by_load.group = 1 + static_cast<std::uint32_t>(rng.below(8));
    options.by_load.units = 1 + static_cast<std::uint32_t>(rng.below(3));
    options.by_load.residency = rng.below(2) == 0, options.by_load.cold_rows = 4, options.by_load.launch_rows = 16;
    options.by_load.max_padding = 0.5;
    const std::vector<LayerLoad> loads = layer_loads({shares(rng, experts), shares(rng, experts)}, {}, tiers);
    ExpertPlacer placer(*place_rules().find("load"), options);
    const std::vector<LayerPlacement> layers = placer.place(loads, std::vector<UnitRoom>(options.by_load.units), kEndless);
    std::uint32_t most = 0;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const LayerPlacement own = place_experts(loads[layer], options.by_load);
      most = std::max(most, own.rows);
      ASSERT_EQ(layers[layer].groups.size(), own.groups.size());
      for (std::size_t g = 0; g < own.groups.size(); ++g) {
        const StaticGroup &one = layers[layer].groups[g], &other = own.groups[g];
        EXPECT_EQ(std::tie(one.experts, one.capacity, one.unit, one.first),
                  std::tie(other.experts, other.capacity, other.unit, other.first));
      }
      EXPECT_EQ(layers[layer].first, own.first);
    }
    EXPECT_EQ(placer.most_rows(loads), most);
    EXPECT_FALSE(placer.names_units());
  }
}

TEST(ExpertPlacement, the_hottest_have_graphs_within_what_units_hold) {
  const PlaceRule& rule = *place_rules().find("hottest");
  ExpertPlacer all(rule, small(1));
  const LayerPlacement whole = all.place({kLoad}, {{}, {}}, 400).front();
  EXPECT_TRUE(all.names_units());
  EXPECT_EQ(whole.capacity, (std::vector<std::uint32_t>{64, 32, 64, 32}));
  ASSERT_EQ(whole.groups.size(), 2u) << "one for each unit";
  EXPECT_EQ(whole.groups[0].experts, (std::vector<std::uint16_t>{2, 0}));
  EXPECT_EQ(all.place({kLoad}, {{1, 500, 0}, {0, 500, 0}}, 400).front().capacity, (std::vector<std::uint32_t>{64, 0, 64, 0}));
  EXPECT_EQ(all.place({kLoad}, {{}, {}}, 191).front().capacity, (std::vector<std::uint32_t>{64, 0, 64, 0})) << "what there is memory for";
  EXPECT_TRUE(all.place({kLoad}, {{0, 0, 0}, {8, 199, 0}}, 400).front().groups.empty());
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto experts = static_cast<std::uint32_t>(2 + rng.below(63)), layers = static_cast<std::uint32_t>(1 + rng.below(4));
    TierRule tiers;
    tiers.multiple = 16, tiers.chunk = 256;
    PlaceOptions options{layers, experts, tiers.chunk, tiers.multiple, 100, {}};
    options.by_load.group = 1 + static_cast<std::uint32_t>(rng.below(8));
    options.by_load.units = 1 + static_cast<std::uint32_t>(rng.below(3));
    ExpertLoads seen;
    for (std::uint32_t layer = 0; layer < layers; ++layer) seen.push_back(shares(rng, experts));
    const std::vector<LayerLoad> loads = layer_loads(seen, {}, tiers);
    std::vector<UnitRoom> rooms;
    std::uint64_t held = 0, placed = 0;
    for (std::uint32_t u = 0; u < options.by_load.units; ++u) {
      rooms.push_back({static_cast<std::uint32_t>(rng.below(40)), rng.below(20000), 0});
      held += rooms.back().graphs;
    }
    ExpertPlacer placer(rule, options);
    const std::vector<LayerPlacement> out = placer.place(loads, rooms, placer.most_rows(loads));  // throws what is not possible
    for (std::size_t layer = 0; layer < layers; ++layer) {
      placed += out[layer].groups.size();
      for (std::size_t e = 0; e < experts; ++e) {
        for (std::size_t f = 0; f < experts; ++f) {
          EXPECT_FALSE(out[layer].capacity[e] == 0 && out[layer].capacity[f] > 0 && loads[layer].expected[f] < loads[layer].expected[e]);
        }
      }
    }
    EXPECT_LE(placed, held);
  }
}

TEST(ExpertPlacement, on_cores_there_are_no_graphs_and_no_memory_for_them) {
  ExpertPlacer placer(*place_rules().find("cores"), small(1));
  EXPECT_EQ(placer.place({kLoad}, {{}, {}}, 0).front().capacity, std::vector<std::uint32_t>(4, 0));
  EXPECT_EQ(placer.most_rows({kLoad}), 0u);
  EXPECT_EQ(ExpertPlacer(says({{}}), small(1)).most_rows({kLoad}), 4u * 64) << "of others as much as any tier could need";
}

}  // namespace
}  // namespace vitro
