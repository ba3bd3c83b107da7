// What tiers of experts do when the load is not as expected: between two requests a rule may say what to expect from then on, and hot
// experts are laid out anew by that (NPUMoE 5.8 measures how well a calibration transfers). Pure bookkeeping, deterministic.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/registry.hpp"
#include "engine/parts/ffn/experts/expert_tiers.hpp"

namespace vitro {

// Of the requests since loads were last expected anew, or since the last one that did not count as drift.
struct LoadsSeen {
  const ExpertLoads& expected;  // by layer and expert, each layer sums to 1
  const ExpertLoads& observed;  // likewise; a layer that nothing was seen of sums to 0
  double overflowed = 0;        // share of the pairs of steps with graphs that found no room in their slice
  double overlap = 1;           // Overlap@K of the two, K a quarter of the experts, of the median layer; 1: nothing was seen
  double max_drop = 0;          // TierRule: the overflow that tiers were made for
};

class ExpertDrift {
 public:
  virtual ~ExpertDrift() = default;
  // After a request: what to expect from now on, as many layers and experts, each layer summing to 1; none: tiers stay as they are.
  virtual std::optional<ExpertLoads> follow(const LoadsSeen& seen) = 0;
};

struct DriftRule {
  std::string name, description;
  std::function<std::unique_ptr<ExpertDrift>()> make;  // null: tiers never follow
};

// "stay": never. "follow": when more overflowed than the tiers were made for, or half of the hot experts are others, half of what was
// expected and half of what was observed. All of them; a plug-in may add to it before a run.
Registry<DriftRule>& drift_rules();

// Half of each, by layer; a layer without observations as it was expected.
ExpertLoads halfway(const ExpertLoads& expected, const ExpertLoads& observed);

}  // namespace vitro
