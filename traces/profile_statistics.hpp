// What a drawn profile comes out as: the statistics that sources state of a model, measured on draws.
#pragma once
#include <cstdint>
#include <vector>

#include "traces/draw_profile.hpp"

namespace vitro {

struct StatisticsRequest {
  std::uint64_t seed = 1;
  std::int16_t layer = 0, expert = -1;
  std::uint32_t neurons = 0;  // of one FFN
  std::uint32_t tokens = 256;
  std::vector<std::uint32_t> batches{1, 2, 4, 8, 16, 32, 64, 128};
  std::vector<double> hottest{0.01, 0.05, 0.1, 0.2, 0.5};  // shares of the neurons
  std::vector<double> cached{0.25, 0.5, 0.75};             // likewise
};

struct ProfileStatistics {
  double fraction = 0;      // of the neurons fire for a token, in the mean
  double repeated = 0;      // of a token's firing neurons, those that fired for the token before it
  double named = 0;         // of the neurons, by the predictor
  double recall = 0;        // of those that fire, named ones
  double coactivation = 0;  // of those named, firing ones: Up and Down are needed with Gate
  // Of pairs of neurons of the colder half, the chance that one fires when the other does.
  double cold_coactivation = 0;

  struct Curve {
    double neurons = 0;      // share of them, hottest first
    double probability = 0;  // of the last of them, to fire for a token
    double firings = 0;      // share of all firings that is theirs
  };
  std::vector<Curve> curve;

  struct Batch {
    std::uint32_t sequences = 0;
    double firing = 0;  // of the neurons fire for at least one sequence
    // Of the neurons do so with a probability of a half or more: what is "highly activated" at this batch.
    double hot = 0;
  };
  std::vector<Batch> batches;

  struct Cache {
    double neurons = 0;  // share of them that a least-recently-used cache holds, filled with the first ones of the FFN
    double hits = 0;     // of lookups of firing neurons, in the second half of the tokens
  };
  std::vector<Cache> caches;
};

// What a router chooses for one sequence of a layer, as "Mixtral of Experts" (Jiang et al. 2024, table 5) counts it.
struct ExpertStatistics {
  double shared = 0;      // of the tokens after the first: at least one expert is that of the token before, whichever its place
  double same_first = 0;  // the first choice is the same
};
// Requires: used <= experts, tokens > 1.
ExpertStatistics expert_statistics(const DrawProfile& profile, std::uint64_t seed, std::int16_t layer, std::uint32_t experts,
                                   std::uint32_t used, std::uint32_t tokens);

// Requires: neurons and tokens > 0. Throws ConfigError when the profile is out of range.
ProfileStatistics profile_statistics(const DrawProfile& profile, const StatisticsRequest& request);

}  // namespace vitro
