// FfnBlock: a policy that carries out whole FFNs by itself, instead of operator by operator.
#pragma once
#include <vector>

#include "engine/machine/kernel_call.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

// The rows of a step that meet one FFN: all of them, or those of one expert.
struct FfnGroup {
  std::int16_t expert = -1;  // -1: the layer has one FFN
  Batch rows;                // R
  View x;                    // [R, width], normalised
  View out;                  // [R, width]: down(act(gate x) * up x), without the residual and the expert's weight
};

class FfnBlock {
 public:
  virtual ~FfnBlock() = default;
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
