#include "traces/firing_process.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

using Ranks = std::vector<std::uint32_t>;

Ranks drawn(const FiringProcess& process, std::uint64_t stream, std::uint64_t position, FiringProcess::Stretches& kept,
            double activity = 1) {
  std::vector<std::uint64_t> fires(process.words());
  process.draw(stream, position, kept, fires, activity);
  Ranks ranks;
  for (std::uint32_t rank = 0; rank < 64 * fires.size(); ++rank) {
    if ((fires[rank / 64] >> rank % 64 & 1) != 0) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<double> power_law(std::uint32_t n, double highest, double skew) {
  std::vector<double> p(n);
  for (std::uint32_t r = 0; r < n; ++r) p[r] = std::min(1.0, highest * std::pow(r + 1.0, -skew));
  return p;
}

// 3000 positions: five standard errors of a rank's frequency are below 0.046 when draws are independent. Ranks that persist have
// fewer independent draws, so their mean over a hundred neighbours is what is looked at.
TEST(FiringProcess, every_rank_fires_as_often_as_its_probability_says) {
  for (const double persistence : {0.0, 0.5, 0.9, 1.0}) {
    const FiringProcess process(power_law(1000, 3, 0.6), persistence, 4);
    FiringProcess::Stretches kept;
    std::vector<double> count(1000);
    for (std::uint64_t position = 0; position < 3000; ++position) {
      for (const std::uint32_t rank : drawn(process, 7, position, kept)) ++count[rank];
    }
    EXPECT_EQ(count[0], 3000) << "probability 1";
    for (std::uint32_t first = 0; first < 1000; first += 100) {
      double fired = 0, expected = 0;
      for (std::uint32_t r = first; r < first + 100; ++r) {
        fired += count[r] / 3000;
        expected += process.probability()[r];
      }
      EXPECT_NEAR(fired, expected, 1.5) << "ranks from " << first << ", persistence " << persistence;
    }
  }
}

// One word of ranks whose bounds are far apart, so that each has to be looked up: its own probability counts, not its neighbours'.
TEST(FiringProcess, ranks_of_one_word_keep_their_own_probability) {
  std::vector<double> probability(64, 0.2);
  std::fill_n(probability.begin(), 32, 0.39);
  for (const double persistence : {0.0, 0.9}) {
    const FiringProcess process(probability, persistence, 4);
    FiringProcess::Stretches kept;
    double upper = 0, lower = 0;
    for (std::uint64_t position = 0; position < 4000; ++position) {
      for (const std::uint32_t rank : drawn(process, 11, position, kept)) (rank < 32 ? upper : lower) += 1.0 / (32 * 4000);
    }
    EXPECT_NEAR(upper, 0.39, 0.012) << "persistence " << persistence;  // five standard errors of 32,000 stretches
    EXPECT_NEAR(lower, 0.2, 0.012) << "persistence " << persistence;
  }
}

// A rank repeats its stretch at both of two neighbouring positions with q * q, and 3 of 4 pairs lie in one stretch.
TEST(FiringProcess, two_positions_of_one_stretch_share_what_persistence_says) {
  const FiringProcess process(std::vector<double>(4000, 0.2), 0.8, 4);
  FiringProcess::Stretches kept;
  const auto shared = [&](std::uint64_t distance) {
    double both = 0, all = 0;
    for (std::uint64_t position = 0; position < 40; ++position) {
      const Ranks a = drawn(process, 3, position, kept), b = drawn(process, 3, position + distance, kept);
      Ranks common;
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
      both += static_cast<double>(common.size());
      all += static_cast<double>(a.size());
    }
    return both / all;
  };
  EXPECT_NEAR(shared(1), 0.2 + 0.8 * 0.64 * 3 / 4, 0.02);
  EXPECT_NEAR(shared(3), 0.2 + 0.8 * 0.64 * 1 / 4, 0.02);
  EXPECT_NEAR(shared(4), 0.2, 0.02) << "nothing lasts longer than a stretch";
}

TEST(FiringProcess, what_is_kept_changes_nothing) {
  for (const std::uint32_t stretch : {1u, 8u, 13u, 32u, 64u, 100u, 700u}) {
    const FiringProcess process(power_law(500, 1, 0.4), 0.7, stretch), other(power_law(300, 1, 0.4), 0.7, stretch);
    FiringProcess::Stretches kept;
    Rng rng(4);
    for (int trial = 0; trial < 200; ++trial) {
      const std::uint64_t stream = rng.below(2), position = rng.below(40);
      const FiringProcess& asked = rng.below(4) == 0 ? other : process;
      FiringProcess::Stretches fresh;
      ASSERT_EQ(drawn(asked, stream, position, kept), drawn(asked, stream, position, fresh)) << trial << ", stretch " << stretch;
    }
  }
}

TEST(FiringProcess, bits_that_are_set_stay) {
  const FiringProcess process(power_law(100, 0.3, 0.2), 0.5, 8);
  FiringProcess::Stretches kept;
  std::vector<std::uint64_t> fires{0xf0f0, 1};
  process.draw(1, 0, kept, fires);
  EXPECT_EQ(fires[0] & 0xf0f0, 0xf0f0u);
  EXPECT_EQ(fires[1] & 1, 1u);
  EXPECT_LT(fires[1], std::uint64_t{1} << 36) << "there are 100 ranks";
}

TEST(StretchTable, streams_keep_their_stretches_until_all_places_are_taken) {
  const FiringProcess process(power_law(50, 1, 0.4), 0.7, 8);
  StretchTable table(256);
  Rng rng(5);
  std::vector<std::uint64_t> streams(64);
  for (std::uint64_t& stream : streams) stream = rng.next();
  for (const std::uint64_t stream : streams) drawn(process, stream, 0, table.of(stream));
  for (const std::uint64_t stream : streams) EXPECT_TRUE(table.of(stream).of(stream)) << "drawn anew for every token";
  for (int more = 0; more < 1000; ++more) {
    const std::uint64_t stream = rng.next();
    FiringProcess::Stretches fresh;
    ASSERT_EQ(drawn(process, stream, 3, table.of(stream)), drawn(process, stream, 3, fresh)) << "in another's place";
  }
}

TEST(FiringProcess, activity_multiplies_every_probability) {
  const FiringProcess process(power_law(2000, 3, 0.6), 0.9, 8, 2);
  for (const double activity : {0.5, 0.8, 1.0, 1.2, 2.0}) {
    FiringProcess::Stretches kept;
    std::vector<double> count(2000);
    for (std::uint64_t position = 0; position < 2000; ++position) {
      for (const std::uint32_t rank : drawn(process, 7, position, kept, activity)) ++count[rank];
    }
    for (std::uint32_t first = 0; first < 2000; first += 200) {
      double fired = 0, expected = 0;
      for (std::uint32_t r = first; r < first + 200; ++r) {
        fired += count[r] / 2000;
        expected += std::min(1.0, activity * process.probability()[r]);
      }
      const double standard_error = std::sqrt(8 / (2000 * expected));  // a stretch of eight positions is one draw
      EXPECT_NEAR(fired / expected, 1, 4 * standard_error) << "ranks from " << first << ", activity " << activity;
    }
  }
}

// Without fresh draws a stretch decides alone, and a rank fires from some activity on: whichever others are asked in between, in whatever
// order. Steps of 1/64 meet the classes that levels are kept in as well as what lies between them.
TEST(FiringProcess, a_rank_fires_from_one_activity_on) {
  const FiringProcess process(power_law(700, 1.2, 0.3), 1.0, 8, 2);
  FiringProcess::Stretches kept;
  Rng rng(6);
  for (std::uint64_t position = 0; position < 30; ++position) {
    std::vector<double> from(700, 3), upto(700, 0);  // the least activity at which a rank fired, and the highest at which it did not
    for (int asked = 0; asked < 60; ++asked) {
      const double activity = static_cast<double>(1 + rng.below(128)) / 64;
      const Ranks fire = drawn(process, 9, position, kept, activity);
      for (std::uint32_t rank = 0; rank < 700; ++rank) {
        double& bound = std::ranges::binary_search(fire, rank) ? from[rank] : upto[rank];
        bound = &bound == &from[rank] ? std::min(bound, activity) : std::max(bound, activity);
      }
    }
    std::size_t between = 0;
    for (std::uint32_t rank = 0; rank < 700; ++rank) {
      EXPECT_LT(upto[rank], from[rank]) << "rank " << rank << ", position " << position;
      between += from[rank] <= 2 && upto[rank] > 0 ? 1 : 0;
    }
    EXPECT_GT(between, 100u);
  }
}

// What a rank draws is part of every result: these sums are of draws as they were first published.
TEST(FiringProcess, draws_are_those_of_every_version) {
  const auto sum = [](double persistence, std::uint32_t stretch, double most) {
    const FiringProcess process(power_law(1000, 1.5, 0.4), persistence, stretch, most);
    FiringProcess::Stretches kept;
    std::uint64_t sum = 0;
    for (std::uint64_t position = 0; position < 300; ++position) {
      std::vector<std::uint64_t> fires(process.words());
      process.draw(77 + position / 200, position, kept, fires, most * static_cast<double>(position % 40 + 1) / 40);
      for (const std::uint64_t word : fires) sum = mix(sum, {word});
    }
    return sum;
  };
  EXPECT_EQ(sum(0, 8, 1), 0x84bc593c2bed03b2u);
  EXPECT_EQ(sum(0.3, 32, 1), 0x1d10407e0316428fu);
  EXPECT_EQ(sum(0.93, 13, 1.5), 0x1a9b7b416481cf90u);
  EXPECT_EQ(sum(0.99, 128, 2), 0xa73c45593115e1c3u);
  EXPECT_EQ(sum(1, 32, 2), 0xd8cd02e80d343e00u);
}

// Without fresh draws a stretch decides alone: of a busy token's neurons those of a quiet one are a part, and another busy one of the
// same stretch has them all again.
TEST(FiringProcess, what_a_stretch_fires_for_busy_tokens_comes_back) {
  const FiringProcess process(power_law(3000, 1, 0.4), 1.0, 8, 2);
  FiringProcess::Stretches kept;
  for (std::uint64_t position = 0; position < 20; ++position) {
    const Ranks quiet = drawn(process, 3, position, kept, 0.7), busy = drawn(process, 3, position, kept, 1.6);
    EXPECT_TRUE(std::includes(busy.begin(), busy.end(), quiet.begin(), quiet.end()));
    EXPECT_GT(busy.size(), 2 * quiet.size());
    const Ranks next = drawn(process, 3, position + 1, kept, 1.6);
    Ranks common;
    std::set_intersection(busy.begin(), busy.end(), next.begin(), next.end(), std::back_inserter(common));
    EXPECT_GT(static_cast<double>(common.size()), 0.82 * static_cast<double>(next.size())) << "an eighth begins a stretch";
  }
}

TEST(FiringProcess, nothing_fires_that_can_not) {
  const auto of = [](std::vector<double> probability) {
    FiringProcess::Stretches kept;
    return drawn(FiringProcess(std::move(probability), 0.5, 8), 1, 0, kept);
  };
  EXPECT_EQ(of({}), Ranks{});
  EXPECT_EQ(of({0, 0, 0}), Ranks{});
  EXPECT_EQ(of({1, 1, 0}), (Ranks{0, 1}));
}

}  // namespace
}  // namespace vitro
