#include "traces/layer_ahead.hpp"

#include <gtest/gtest.h>

#include <future>

#include "draw_calls.hpp"

namespace vitro {
namespace {

using Next = LayerOrder::Next;

std::vector<SeqPos> batch(std::uint32_t sequences, std::uint32_t position) {
  std::vector<SeqPos> rows;
  for (std::uint32_t s = 0; s < sequences; ++s) rows.push_back({s, position});
  return rows;
}

// Enters layers 0 and 1 twice with such rows. -> the first step that is drawn; none: nothing is, however long one waits.
std::optional<LayerAhead::Step> first_drawn(const std::vector<SeqPos>& rows, const Op& op = ops::Glu{.report_active = true}) {
  std::promise<LayerAhead::Step> drawn;
  std::future<LayerAhead::Step> step = drawn.get_future();
  {
    LayerAhead ahead([&](const LayerAhead::Step& given) {
      drawn.set_value(given);
      return false;
    });
    for (const std::int16_t layer : {0, 1, 0}) {
      KernelCall call = glu_call(100, layer, rows);
      call.op = op;
      ahead.enter(call, 8);
    }
    if (rows.size() >= LayerAhead::kLeastRows && rows.size() <= LayerAhead::kMostRows && rows[0].sequence != rows[1].sequence) step.wait();
  }
  if (step.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return step.get();
}

TEST(LayerOrder, the_next_layer_is_the_one_that_came_behind_it_last) {
  LayerOrder order;
  EXPECT_EQ(order.enter(0), std::nullopt);
  EXPECT_EQ(order.enter(2), std::nullopt) << "nothing came behind it yet";
  EXPECT_EQ(order.enter(5), std::nullopt);
  EXPECT_EQ(order.enter(0), (Next{2, false}));
  EXPECT_EQ(order.enter(0), std::nullopt) << "a layer is entered once";
  EXPECT_EQ(order.enter(2), (Next{5, false}));
  EXPECT_EQ(order.enter(5), (Next{0, true})) << "a step ends with its last layer";
  EXPECT_EQ(order.enter(2), (Next{5, false}));
  EXPECT_EQ(order.enter(5), (Next{2, true})) << "another order is learned";
}

TEST(LayerOrder, a_single_layer_is_never_entered_anew) {
  LayerOrder order;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(order.enter(4), std::nullopt);
}

TEST(LayerAhead, the_next_layer_is_drawn_for_the_same_rows) {
  const std::vector<SeqPos> rows = batch(LayerAhead::kLeastRows, 7);
  const auto step = first_drawn(rows);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->layer, 1);
  EXPECT_EQ(step->rows, rows);
  EXPECT_FALSE(step->router);
}

TEST(LayerAhead, a_router_is_asked_as_the_layer_before_was) {
  const auto step = first_drawn(batch(LayerAhead::kMostRows, 7), ops::Route{.k = 2});
  ASSERT_TRUE(step && step->router);
  EXPECT_EQ(step->router->k, 2u);
  EXPECT_EQ(step->experts, 8u);
}

TEST(LayerAhead, few_rows_many_rows_and_those_of_a_prompt_are_left_alone) {
  EXPECT_FALSE(first_drawn(batch(LayerAhead::kLeastRows - 1, 7)));
  EXPECT_FALSE(first_drawn(batch(LayerAhead::kMostRows + 1, 7)));
  std::vector<SeqPos> prompt;
  for (std::uint32_t p = 0; p < LayerAhead::kLeastRows; ++p) prompt.push_back({3, p});
  EXPECT_FALSE(first_drawn(prompt));
}

TEST(LayerAhead, decoding_goes_on_by_one_position) {
  std::promise<LayerAhead::Step> drawn;
  LayerAhead ahead([&](const LayerAhead::Step& step) {
    drawn.set_value(step);
    return false;
  });
  ahead.enter(glu_call(100, 0, batch(1, 3)), 0);  // not of a batch: this layer is not learned
  for (const std::int16_t layer : {1, 0, 1}) ahead.enter(glu_call(100, layer, batch(LayerAhead::kLeastRows, 3)), 0);
  const LayerAhead::Step step = drawn.get_future().get();
  EXPECT_EQ(step.layer, 0);
  EXPECT_EQ(step.rows, batch(LayerAhead::kLeastRows, 4));
}

TEST(LayerAhead, it_ends_with_a_step_posted_and_when_nothing_was) {
  LayerAhead never([](const LayerAhead::Step&) { return true; });
  for (int repeat = 0; repeat < 50; ++repeat) {
    LayerAhead ahead([](const LayerAhead::Step&) { return true; });
    for (const std::int16_t layer : {0, 1, 0, 1}) ahead.enter(glu_call(100, layer, batch(LayerAhead::kLeastRows, 3)), 0);
  }
}

}  // namespace
}  // namespace vitro
