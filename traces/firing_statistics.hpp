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

// How tokens differ, all FFNs of a token taken together; tokens of equal sequence and position in all FFNs of the recording.
struct TokenFiring {
  std::uint64_t tokens = 0;
  double spread = 0;        // standard deviation over mean of the number of neurons that fire
  double shared = 0;        // the part of it that all FFNs share: root of the mean covariance of two FFNs' numbers, each over its mean
  double layers_alike = 0;  // mean correlation of two FFNs' numbers; 0 for one FFN, as `shared`
  double layer_spread = 0;  // as `spread`, of one FFN's number: mean over FFNs, each by how many fire in it
  double neighbours_alike = 0;  // as `layers_alike`, of FFNs that follow each other
  double lasting = 0;           // correlation with the token before it
  double fresh = 0;         // mean share of a token's firing neurons that did not fire for the token before
  double fresh_spread = 0;  // of the number of those, as `spread`
};
// FFNs that not every token uses (experts) are counted where they are used. Zeros for fewer than two tokens.
TokenFiring token_statistics(const Recording& recording);

// Neuron ids by falling count, ties ascending: the order in which a packed file should store them.
std::vector<std::uint32_t> hottest_first(const LayerFiring& firing);

// The exponent s for which min(1, c rank^-s) with the same mean puts the same share of activity into the hottest fifth: the
// `skew` of a drawn profile (draw.hpp).
double fitted_skew(const LayerFiring& firing);

}  // namespace vitro
