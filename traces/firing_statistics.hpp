// What a recording says of sparsity: how many neurons fire, how unevenly, and how alike neighbouring tokens are.
#pragma once
#include <cstdint>
#include <vector>

#include "traces/recording.hpp"

namespace vitro {

struct LayerFiring {
  std::int16_t layer = -1, expert = -1;
  std::uint64_t tokens = 0;           // (sequence, position) pairs that were looked at
  std::vector<std::uint64_t> counts;  // by neuron: for how many of them it fired
  double active = 0;                  // mean share of the neurons that fire for a token
  double hot_share = 0;               // of all firings, those of the most active fifth of the neurons
  double repeated = 0;                // of a token's firing neurons, those that fired for the token before it as well
};

// One entry per layer and expert, ascending. `neurons`: of one FFN; ids of the recording are below it, or ConfigError.
std::vector<LayerFiring> firing_statistics(const Recording& recording, std::uint32_t neurons);

// Neuron ids by falling count, ties ascending: the order in which a packed file should store them.
std::vector<std::uint32_t> hottest_first(const LayerFiring& firing);

// The exponent s for which min(1, c rank^-s) with the same mean puts the same share of activity into the hottest fifth: the
// `skew` of a drawn profile (draw.hpp).
double fitted_skew(const LayerFiring& firing);

}  // namespace vitro
