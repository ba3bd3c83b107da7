// Batches whose neurons DrawFunction draws a layer ahead.
#include <gtest/gtest.h>

#include <algorithm>

#include "draw_calls.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kNeurons = 2000, kExperts = 8;
constexpr std::int16_t kLayers = 4;

std::vector<SeqPos> rows_at(std::uint32_t position) {
  std::vector<SeqPos> rows;
  for (std::uint32_t s = 0; s < LayerAhead::kLeastRows; ++s) rows.push_back({s, position + s});
  return rows;
}

// All that one layer of a step asks: experts, what their predictors name, which neurons fire.
std::vector<Ids> ask(DrawFunction& function, bool mixture, std::int16_t layer, const std::vector<SeqPos>& rows) {
  std::vector<Ids> out;
  const auto neurons = [&](std::int16_t expert, const std::vector<SeqPos>& batch) {
    for (const SelectOf of : {SelectOf::predictor, SelectOf::gate}) {
      KernelCall call = select_call(kNeurons, layer, batch, of);
      call.expert = expert;
      const Outcome outcome = function.execute(call);
      for (const IndexList& row : std::get<ActiveSet>(outcome).rows) out.push_back(*row);
    }
  };
  if (!mixture) {
    neurons(-1, rows);
    return out;
  }
  KernelCall route = call_over(ops::Route{.k = 2}, kExperts, rows);
  route.layer = layer;
  const Outcome outcome = function.execute(route);
  const auto& choices = std::get<std::vector<ExpertChoice>>(outcome);
  for (std::uint16_t expert = 0; expert < kExperts; ++expert) {
    std::vector<SeqPos> its;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (std::ranges::find(choices[row].ids, expert) != choices[row].ids.end()) its.push_back(rows[row]);
    }
    if (!its.empty()) neurons(static_cast<std::int16_t>(expert), its);
  }
  return out;
}

class DrawnAhead : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ffn, DrawnAhead, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "with_experts" : "without"); });

TEST_P(DrawnAhead, answers_are_found_and_equal_those_of_single_rows) {
  DrawProfile profile = skewed();
  profile.predictor = {0.9, 0.8};
  profile.activity_spread = 0.2;
  DrawFunction ahead(profile, 42);
  for (std::uint32_t position = 0; position < 10; ++position) {
    for (std::int16_t layer = 0; layer < kLayers; ++layer) {
      ahead.ahead();
      const std::vector<Ids> got = ask(ahead, GetParam(), layer, rows_at(position));
      DrawFunction alone(profile, 42);
      ASSERT_EQ(got, ask(alone, GetParam(), layer, rows_at(position))) << "layer " << layer << " position " << position;
    }
  }
  const KeptDraws::Ahead counts = ahead.ahead();
  EXPECT_GT(counts.kept, 500u);
  EXPECT_GT(counts.found, counts.kept / 2);
}

TEST(DrawAhead, nothing_is_for_single_sequences) {
  DrawFunction function(skewed(), 1);
  for (std::uint32_t position = 0; position < 20; ++position) {
    for (std::int16_t layer = 0; layer < kLayers; ++layer) ask(function, true, layer, {{0, position}});
  }
  EXPECT_EQ(function.ahead().kept, 0u);
}

// No layer asks for what the one before it did: a position is jumped over.
TEST(DrawAhead, drawing_in_vain_comes_to_an_end) {
  DrawFunction function(skewed(), 1);
  const std::uint64_t of_a_layer = LayerAhead::kLeastRows, enough = of_a_layer + 64;
  for (std::uint32_t round = 0; round < 100; ++round) {
    function.ahead();
    ask(function, false, static_cast<std::int16_t>(round % 2), rows_at(100 * round));
  }
  const KeptDraws::Ahead counts = function.ahead();
  EXPECT_EQ(counts.found, 0u);
  EXPECT_GT(counts.kept, enough);
  EXPECT_LE(counts.kept, enough + of_a_layer);
}

}  // namespace
}  // namespace vitro
