#include "traces/replay.hpp"

#include <gmock/gmock.h>

#include "tests/traces/draw_calls.hpp"
#include "traces/draw.hpp"
#include "traces/recorder.hpp"

namespace vitro {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kSeed = 17;
const std::vector<SeqPos> kRows{{0, 0}, {0, 1}, {0, 2}, {1, 2}};

DrawProfile profile(double foresight) {
  DrawProfile made;
  made.expert_foresight = foresight;
  return made;
}

KernelCall route(bool ahead, std::vector<SeqPos> rows = kRows) {
  KernelCall call = call_over(ops::Route{2, true}, 16, std::move(rows));
  if (ahead) call.expert = kForeseen;
  return call;
}

std::vector<std::vector<std::uint16_t>> ids(Function& function, const KernelCall& call) {
  std::vector<std::vector<std::uint16_t>> found;
  const Outcome outcome = function.execute(call);
  for (const ExpertChoice& choice : std::get<std::vector<ExpertChoice>>(outcome)) found.push_back(choice.ids);
  return found;
}

Recording recorded(Function& function, const std::vector<KernelCall>& calls) {
  RecordingFunction recorder(function);
  for (const KernelCall& call : calls) recorder.execute(call);
  return recorder.take();
}

// As the drawn run would have gone had it looked ahead.
TEST(Replay, a_router_that_was_not_asked_ahead_names_as_the_profile_says) {
  DrawFunction draw(profile(0.5), kSeed);
  ReplayFunction replay(recorded(draw, {route(false)}), {0.5, kSeed});
  const auto named = ids(replay, route(true));
  EXPECT_EQ(named, ids(draw, route(true)));
  EXPECT_NE(named, ids(replay, route(false)));
  EXPECT_THAT(replay.notes(), ElementsAre(HasSubstr("4 of 4 times")));
  EXPECT_THAT(replay.notes().front(), HasSubstr("expert_foresight, 50 %"));
}

TEST(Replay, what_was_recorded_of_looking_ahead_is_named_again) {
  DrawFunction draw(profile(0.3), kSeed);
  ReplayFunction replay(recorded(draw, {route(false), route(true)}), {1, kSeed + 1});
  EXPECT_EQ(ids(replay, route(true)), ids(draw, route(true)));
  EXPECT_THAT(replay.notes(), ElementsAre());
}

TEST(Replay, rows_that_were_not_asked_ahead_are_filled_in) {
  DrawFunction draw(profile(0.3), kSeed);
  ReplayFunction replay(recorded(draw, {route(false), route(true, {{0, 1}})}), {1, kSeed});
  const auto truth = ids(draw, route(false)), guess = ids(draw, route(true));
  EXPECT_THAT(ids(replay, route(true)), ElementsAre(truth[0], guess[1], truth[2], truth[3]));
  EXPECT_THAT(replay.notes(), ElementsAre(HasSubstr("3 of 4 times")));
}

TEST(Replay, without_a_share_to_go_by_no_expert_is_named) {
  DrawFunction draw(profile(0.5), kSeed);
  ReplayFunction replay(recorded(draw, {route(false)}));
  EXPECT_EQ(ids(replay, route(true)).size(), 0u);
  EXPECT_THAT(replay.notes(), ElementsAre(HasSubstr("no expert was read ahead")));
  EXPECT_EQ(ids(replay, route(false)), ids(draw, route(false)));
}

TEST(Replay, a_router_that_is_never_right_names_others) {
  DrawFunction draw(profile(0), kSeed);
  ReplayFunction replay(recorded(draw, {route(false)}), {0.0, kSeed});
  const auto named = ids(replay, route(true)), truth = ids(replay, route(false));
  EXPECT_EQ(named, ids(draw, route(true)));
  ASSERT_EQ(named.size(), truth.size());
  for (std::size_t row = 0; row < named.size(); ++row) {
    for (const std::uint16_t expert : named[row]) EXPECT_EQ(std::ranges::count(truth[row], expert), 0) << row;
  }
}

TEST(Replay, experts_of_a_row_that_never_came_are_not_foreseen) {
  DrawFunction draw(profile(0.5), kSeed);
  ReplayFunction replay(recorded(draw, {route(false)}), {0.5, kSeed});
  EXPECT_THROW(replay.execute(route(true, {{5, 0}})), RunError);
}

}  // namespace
}  // namespace vitro
