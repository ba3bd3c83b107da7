// What a router names that is asked a layer ahead of its own (KernelCall::expert kForeseen), where a profile says how often it is right.
#pragma once
#include "engine/ops/kernel_call.hpp"

namespace vitro {

struct ForesightOf {
  std::uint64_t seed = 0;
  std::int16_t layer = -1;
  SeqPos at;
  std::uint32_t experts = 0;  // of the layer
};

// Each expert of the truth is named with probability `share`, 0 to 1, else one in its place that was not chosen, all of them alike; weights
// are the truth's. A pure function of what it is given. Requires: experts of the truth are below of.experts.
ExpertChoice foresee(const ExpertChoice& truth, double share, const ForesightOf& of);

}  // namespace vitro
