// How long the stages of a tile plan take together, alone on the DRAM.
#pragma once
#include "hw_models/npu/plan.hpp"

namespace vitro::hw {

// A group starts in a stage when the stage before has it ready, the unit is free, and one of the two buffers behind is empty. The
// first groups are followed through the stages; then every group takes as long as those did on average.
double pipeline_seconds(const TilePlanner& planner, const TilePlan& plan);

}  // namespace vitro::hw
