// Parts that carry out whole FFNs by themselves, instead of operator by operator.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/machine/task.hpp"
#include "engine/ops/kernel_call.hpp"
#include "engine/parts/ffn/expert_plan.hpp"
#include "engine/parts/ffn/moe_stats.hpp"
#include "engine/parts/lora/lora_bank.hpp"
#include "engine/parts/placement/graph_cache.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

// The rows of a step that meet one FFN: all of them, or those of one expert.
struct FfnGroup {
  std::int16_t expert = -1;               // -1: the layer has one FFN
  Batch rows;                             // R
  View x;                                 // [R, width], normalised
  View out;                               // [R, width]: down(act(gate x) * up x), without the residual and the expert's weight
  std::vector<AdapterRun> adapters = {};  // of these rows, those that have one
  bool prompt = false;                    // the step has more rows than those of decoding: matmuls have the contract of prompts
};

// The rows of a step before a router parts them, and a pool in which they are laid out by expert.
struct RoutedStep {
  Batch rows;   // B
  View x;       // [B, width], normalised
  View chosen;  // index32 [pool]: the row of each place, as admit() gave them
  View packed;  // [pool, width]: room for the rows in that order
  View out;     // [pool, width]: of each place what its expert makes of it, without the residual and the expert's weight
};

// What every way to carry out whole FFNs has in common.
class FfnStage {
 public:
  virtual ~FfnStage() = default;
  // What has to be there before the first token, beside the weights. Requires: the weights are loaded.
  virtual Task<void> load() { co_return; }
  // A step of `rows` rows of so many sequences will need the FFN of `layer` next but one at most: what does not depend on x can begin.
  // Returns at once; run() of that layer waits for it.
  virtual void prepare(std::int16_t /*layer*/, std::uint32_t /*rows*/, std::uint32_t /*sequences*/) {}
  // Chains of static graphs that a step of `rows` rows of so many sequences launches, whatever its values; without memory. Those of steps
  // whose chains follow from what is in DRAM are not among them. Requires: the weights are loaded.
  virtual std::vector<UnitChain> graphs(std::uint32_t /*rows*/, std::uint32_t /*sequences*/) { return {}; }
  // Waits for what prepare() began and run() did not need: every step ends with it, whether it succeeded or not.
  virtual Task<void> settle() { co_return; }
  // Between two requests of a run: what follows the workload may change.
  virtual Task<void> between_requests() { co_return; }
  // Waits for everything. Requires: called after the last step, whether it succeeded or not.
  virtual Task<void> finish() { co_return; }
  // Hits, misses and predictions of the neurons that it caches; zeros where there is no such cache.
  virtual CacheStats stats() const { return {}; }
  virtual std::vector<std::string> notes() const { return {}; }  // what a reader of the result has to know
  virtual const MoeStats* experts() const { return nullptr; }  // null: it does not lay out experts
};

// Carries out FFNs whose groups of rows are given: the layer's one FFN, or each chosen expert with its rows.
class FfnBlock : public FfnStage {
 public:
  // Throws RunError when a unit or the storage fails.
  virtual Task<void> run(std::int16_t layer, std::vector<FfnGroup> groups) = 0;
};

// L2 norms of the attention output of a step's rows; empty where nothing is computed (phantom).
using RowNorms = std::function<std::vector<float>()>;

// Lays a mixture's rows out by expert itself, and decides which pairs of row and expert are computed at all.
class RoutedFfn : public FfnStage {
 public:
  // Most places that a step of so many rows needs.
  virtual std::uint32_t pool_rows(std::uint32_t rows) const = 0;
  // Of the router's choices where each pair's partial sum will lie. run() of the same layer comes next. `norms`: asked in the call alone.
  virtual ExpertPlan admit(std::int16_t layer, const std::vector<ExpertChoice>& choices, const RowNorms& norms) = 0;
  // Throws RunError when a unit fails.
  virtual Task<void> run(std::int16_t layer, RoutedStep step) = 0;
};

// One of the two, or neither: then the transformer carries FFNs out operator by operator. Copies share the part.
struct Ffn {
  std::shared_ptr<FfnBlock> block;
  std::shared_ptr<RoutedFfn> routed;

  FfnStage* stage() const { return block ? static_cast<FfnStage*>(block.get()) : routed.get(); }
};

}  // namespace vitro
