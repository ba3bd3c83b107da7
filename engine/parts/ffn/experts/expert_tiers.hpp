// How many rows a static graph has for each expert (NPUMoE 4.1): a few capacities for each layer, and for each expert the smallest that
// holds the load that calibration expects of it.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/parts/ffn/experts/expert_overflow.hpp"

namespace vitro {

// By layer and expert: the share of the layer's (row, expert) pairs that fall to it. Each layer sums to 1.
using ExpertLoads = std::vector<std::vector<double>>;
// By layer, chunk of the calibration and expert: rows of the chunk that chose it.
using ChunkCounts = std::vector<std::vector<std::vector<std::uint32_t>>>;

// What the base capacity is the mean load of.
enum class BaseOf : std::uint8_t {
  pairs,  // B k / E: what an expert gets when all get alike
  rows,   // B / E, as the paper writes it: a k-th of that
};

struct TierRule {
  std::uint32_t chunk = 128;  // rows of a step of prefill, B
  std::uint32_t experts_used = 2;
  bool tiers = true;  // else one capacity for all experts of all layers
  BaseOf base_of = BaseOf::pairs;
  std::uint32_t base = 0;  // rows; 0: by base_of
  // One tier each, ascending. Of pairs: the last one is the layer's busiest expert, r B k / E rows with the layer's own imbalance r, and
  // the others are in proportion. Else multiples of the base ("top quartile gets 4x base capacity", section 1).
  std::vector<std::uint32_t> multiples{1, 2, 4};
  std::uint32_t capacity = 0;  // without tiers; 0: what the busiest expert is expected to get
  std::uint32_t multiple = 1;  // of which every capacity is one (shape_multiple of all units)
  double max_drop = 0.1;       // of a layer's pairs, expected to find no room: tiers grow until it is met; 1: they never do
};

// Rows of a full chunk that are expected of an expert with such a share: no more than the chunk has.
double expected_rows(double share, const TierRule& rule);

// B k / E, B / E or what the rule says, before it is rounded to a shape.
std::uint32_t base_capacity(std::size_t experts, const TierRule& rule);

// r of a layer: the load of its busiest expert over the mean (4.1). Requires: shares that sum to 1.
double imbalance(const std::vector<double>& layer);

// Of one expert with such a share. `counts`: as many layers as there are, or none. Requires: chunks of the rule's size.
OverflowCurve overflow_curve(double share, const ChunkCounts& counts, std::size_t layer, std::size_t expert, const TierRule& rule);
// By layer and expert.
std::vector<std::vector<OverflowCurve>> overflow_curves(const ExpertLoads& loads, const ChunkCounts& counts, const TierRule& rule);

// By layer and expert, all multiples of rule.multiple and at least that; with tiers, a hotter expert of a layer has no less than a cooler
// one. What overflows is within rule.max_drop, unless rule.capacity says otherwise. Requires: loads of the model's layers and experts, and
// their curves.
std::vector<std::vector<std::uint32_t>> capacities(const ExpertLoads& loads, const std::vector<std::vector<OverflowCurve>>& curves,
                                                   const TierRule& rule);

}  // namespace vitro
