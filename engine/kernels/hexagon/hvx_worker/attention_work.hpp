// What each stage of attention does with one step (engine/base/attention_plan.hpp, attention_layout.hpp).
#pragma once
#include "engine/kernels/hexagon/attention_layout.hpp"
#include "engine/kernels/hexagon/hvx_worker/stage_work.hpp"

namespace vitro::hexagon {

// An operator of Kind::attention with its buffers in TCM, which begins at `tcm`.
struct AttentionWork {
  const Operator* op;
  const Regions* regions;
  unsigned char* tcm;
  AttentionTcm place;

  const unsigned char* operand(int i) const { return regions->inbound + op->in[i]; }
  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(tcm + static_cast<uint32_t>(offset));
  }
};

// Queries, and the table of 2^x if there is one: gathers need it in TCM.
void load_queries(const AttentionWork& work, Chain& chain);
// Keys of a step's block, and values of the one before that whose softmax is made in this step.
void load_block(const AttentionWork& work, uint32_t step, Chain& chain);
// The share of HVX thread `thread` of `threads`.
void attention_vectors(const AttentionWork& work, uint32_t step, uint32_t thread, uint32_t threads);
void attention_products(const AttentionWork& work, uint32_t step, volatile uint32_t& progress);

}  // namespace vitro::hexagon
