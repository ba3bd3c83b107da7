// How many rows a static graph has for each expert (NPUMoE 4.1): a few capacities, multiples of the load of an expert under balanced
// top-1 routing, and for each expert the smallest that holds the load that calibration expects of it.
#pragma once
#include <cstdint>
#include <vector>

namespace vitro {

// By layer and expert: the share of the layer's (row, expert) pairs that fall to it. Each layer sums to 1.
using ExpertLoads = std::vector<std::vector<double>>;

struct TierRule {
  std::uint32_t chunk = 128;  // rows of a step of prefill, B
  std::uint32_t experts_used = 2;
  bool tiers = true;                              // else one capacity for all experts of all layers
  std::uint32_t base = 0;                         // 0: B / E (4.1)
  std::vector<std::uint32_t> multiples{1, 2, 4};  // of the base, ascending: "top quartile gets 4x base capacity" (section 1)
  std::uint32_t capacity = 0;                     // without tiers; 0: what the busiest expert is expected to get
  std::uint32_t multiple = 1;                     // of which every capacity is one (ane.shape_multiple)
};

// Rows of a full chunk that are expected of an expert with such a share.
double expected_rows(double share, const TierRule& rule);

// B / E or what the rule says, before it is rounded to a shape.
std::uint32_t base_capacity(std::size_t experts, const TierRule& rule);

// By layer and expert, all multiples of rule.multiple and at least that. Requires: loads of the model's layers and experts.
std::vector<std::vector<std::uint32_t>> capacities(const ExpertLoads& loads, const TierRule& rule);

}  // namespace vitro
