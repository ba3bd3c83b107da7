// How long the stages of a tile plan take together, alone on the DRAM.
#pragma once
#include <utility>
#include <vector>

#include "hw_models/npu/plan.hpp"

namespace vitro::hw {

// A group starts in a stage when the stage before has it ready, the unit is free, and one of the two buffers behind is empty. The
// first groups are followed through the stages; then every group takes as long as those did on average.
double pipeline_seconds(const TilePlanner& planner, const TilePlan& plan);

// The same, remembered for the latest plans: the calls of a layer are mostly those of the layer before.
class PipelineTimes {
 public:
  explicit PipelineTimes(const TilePlanner& planner) : planner_(planner) {}
  double seconds(const TilePlan& plan);
  void forget() { known_.clear(); }  // the planner's parameters have changed

 private:
  const TilePlanner& planner_;
  std::vector<std::pair<TilePlan, double>> known_;
  std::size_t next_ = 0;  // to be replaced
};

}  // namespace vitro::hw
