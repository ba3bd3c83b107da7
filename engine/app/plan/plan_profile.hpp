// What an offline planner may know of a workload: how often neurons fire together at a batch size, and how long after their last
// use they are used again. From it follows what a cache of any size over any part of the neurons misses (Denning's working
// sets), so no cache and no run is simulated.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "traces/draw_profile.hpp"
#include "traces/recording.hpp"

namespace vitro {

struct ReuseRequest {
  std::uint32_t neurons = 0, per_block = 1;  // of one FFN; neurons that are cached together
  std::uint32_t buckets = 64;                // runs of neurons, in the order of the file
  // Of each drawn sequence, the first half of which fills the histories. A recording is counted to its end, behind a history as long as
  // that or half of it: what a cache remembers for longer is nearly all there is.
  std::uint32_t tokens = 192;
  std::vector<std::uint32_t> batches{1, 2, 3, 4};
  bool predicts = true;    // else every gate is looked at
  bool keep_named = true;  // a block that is named counts as used; else only one with a neuron that fires
  // Of a layer, and those that a router takes for a token; 0: it has one FFN. Drawn as a run draws them, so that an expert's absences
  // are as long as there.
  std::uint32_t experts = 0, experts_used = 0;
  std::uint64_t seed = 1;
  // For each of these every step is counted by itself: what misses behind the first `hot` neurons in a cache that remembers `reach` steps.
  struct Limit {
    std::uint32_t hot = 0, reach = 0;
  };
  std::vector<Limit> limits;
};

// Means over the steps of a batch; a step is a token of every sequence.
struct ReuseBucket {
  std::uint32_t first = 0, neurons = 0, blocks = 0;
  double named = 0, fired = 0;      // neurons, by at least one row
  double mostly = 0;                // neurons that fire in more than half of all steps that use the FFN, the history's among them
  double named_blocks = 0;          // with a neuron that is named
  std::vector<double> reuse;        // [d]: of named_blocks those that were used last d steps before, d >= 1; [0]: longer ago
  std::vector<double> used_within;  // [d]: blocks that were used within the last d steps
};
struct BatchReuse {
  std::uint32_t batch = 1;
  double rows = 1;  // of a step that use the FFN
  std::vector<ReuseBucket> buckets;
  // [limit]: blocks of a whole layer by step, all experts together, since an accelerator waits for the reads of one step and not for the
  // mean of many. Of a long recording 65 to 128 steps, evenly spread.
  std::vector<std::vector<double>> missing;
  // Likewise, where a miss brings a silent neuron's Gate row alone: those that fire for the first time since they missed.
  std::vector<std::vector<double>> completed;
};

// The mean FFN of a layer of a drawn workload.
std::vector<BatchReuse> reuse_of(const DrawProfile& profile, std::int16_t layer, const ReuseRequest& request);
// The mean over all FFNs of a recording, whose predictor is perfect. hottest_first: the file is packed in its order. Sequences of
// a batch are stretches of it. Throws ConfigError when it is too short for the largest batch, or of another model.
std::vector<BatchReuse> reuse_of(const Recording& recording, bool hottest_first, ReuseRequest request);

struct FfnReuse {
  std::int16_t layer = -1, expert = -1;
  std::vector<BatchReuse> batches;
};
// Of each FFN of a recording, ascending; conditions as above.
std::vector<FfnReuse> reuse_by_ffn(const Recording& recording, bool hottest_first, ReuseRequest request);

}  // namespace vitro
