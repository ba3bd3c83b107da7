// FfnBlock: a policy that carries out whole FFNs by itself, instead of operator by operator.
#pragma once
#include <vector>

#include "engine/machine/kernel_call.hpp"
#include "engine/machine/task.hpp"
#include "engine/moe/expert_plan.hpp"

namespace vitro {

// The rows of a step that meet one FFN: all of them, or those of one expert.
struct FfnGroup {
  std::int16_t expert = -1;  // -1: the layer has one FFN
  Batch rows;                // R
  View x;                    // [R, width], normalised
  View out;                  // [R, width]: down(act(gate x) * up x), without the residual and the expert's weight
};

// The rows of a step before a router parts them, and a pool in which they are laid out by expert.
struct RoutedStep {
  Batch rows;   // B
  View x;       // [B, width], normalised
  View chosen;  // index32 [pool]: the row of each place, as admit() gave them
  View packed;  // [pool, width]: room for the rows in that order
  View out;     // [pool, width]: of each place what its expert makes of it, without the residual and the expert's weight
};

// What a policy does for mixtures that lays rows out by expert itself, and decides which pairs are computed at all.
class RoutedFfn {
 public:
  virtual ~RoutedFfn() = default;
  // Most places that a step of so many rows needs.
  virtual std::uint32_t pool_rows(std::uint32_t rows) const = 0;
  // Of the router's choices where each pair's partial sum will lie. run() of the same layer comes next.
  virtual ExpertPlan admit(std::int16_t layer, const std::vector<ExpertChoice>& choices) = 0;
  // Throws RunError when a unit fails.
  virtual Task<void> run(std::int16_t layer, RoutedStep step) = 0;
};

class FfnBlock {
 public:
  virtual ~FfnBlock() = default;
  // Where not null, it serves routed layers, and run() the others.
  virtual RoutedFfn* routed() { return nullptr; }
  // A step of `rows` rows of so many sequences will need the FFN of `layer` next but one at most: what does not depend on x can begin.
  // Returns at once; run() of that layer waits for it.
  virtual void prepare(std::int16_t /*layer*/, std::uint32_t /*rows*/, std::uint32_t /*sequences*/) {}
  // Waits for what prepare() began and run() did not need: every step ends with it, whether it succeeded or not.
  virtual Task<void> settle() { co_return; }
  // Throws RunError when a unit or the storage fails.
  virtual Task<void> run(std::int16_t layer, std::vector<FfnGroup> groups) = 0;
  virtual std::uint64_t seam_calls() const = 0;  // hand-offs to units so far
};

}  // namespace vitro
