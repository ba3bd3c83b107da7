// What each stage of a product of int8 activations with blocks of weights does with one step (block_plan.hpp, block_layout.hpp).
#pragma once
#include "engine/kernels/hexagon/block_layout.hpp"
#include "engine/kernels/hexagon/hvx_worker/stage_work.hpp"

namespace vitro::hexagon {

// A step, and which of the buffers have its scales and its group's results.
struct BlockTurn {
  Step step{};  // no columns: nothing
  uint32_t kept = 0, out = 0;
};

// A pass of an operator.
struct BlockWork {
  StagePass pass;
  unsigned char* tcm;
  BlockTcm place;
  BlockTurn made, summed;  // of the vector stage's step: whose tiles HVX makes, and whose sums, of the step `lag` before, it scales

  unsigned char* at(uint64_t begin) const { return tcm + static_cast<uint32_t>(begin); }
  float* results(const Step& step, uint32_t out) const {  // of its first column
    const bool once = pass.op->stages.once != 0;
    return reinterpret_cast<float*>(at(once ? place.result : place.out[out])) + (once ? step.column : 0);
  }
};

// Activations of the pass, and their scales.
void load_bytes(const BlockWork& work, Chain& chain);
// The share of HVX thread `thread` of `threads`; buffer: of the step whose tiles are made, and of the one whose sums are there.
void block_vectors(const BlockWork& work, uint32_t buffer, uint32_t thread, uint32_t threads);
// The integer sums of a step's blocks.
void block_products(const BlockWork& work, const Step& step, uint32_t buffer, volatile uint32_t& progress);
// What goes out behind the results of a step, the last of the pass or not.
Transfer block_results(const BlockWork& work, const BlockTurn& turn, bool last);

}  // namespace vitro::hexagon
