// The CPU's kernels: for each operator of engine/ops/operators.hpp one overload, which is the whole of its contract over a KernelSet, apart
// from the inner loops. An operator without one does not compile. Requires (all): check_call(call) passed, and `op` is the call's; no
// activation is float16 but where cpu/halves.hpp says so. Scratch is per thread.
#pragma once
#include "engine/kernels/common/kernel_set.hpp"
#include "engine/ops/contract.hpp"

namespace vitro::cpu {

void compute(const ops::Embed& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::RmsNorm& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Matmul& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Rope& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::KvAppend& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::KvStage& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Attention& op, const KernelSet& set, const KernelCall& call);
Outcome compute(const ops::Glu& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Add& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Gather& op, const KernelSet& set, const KernelCall& call);
Outcome compute(const ops::Route& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::ExpertSum& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Reduce& op, const KernelSet& set, const KernelCall& call);
Outcome compute(const ops::Sample& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Copy& op, const KernelSet& set, const KernelCall& call);
Outcome compute(const ops::Select& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Accumulate& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::AddProduct& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::Move& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::InverseRms& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::ScaleRows& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::LayerNorm& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::AddGated& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::AttentionScores& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::AttentionWeights& op, const KernelSet& set, const KernelCall& call);
void compute(const ops::AttentionValues& op, const KernelSet& set, const KernelCall& call);
// An accelerator's own tables: products compute their contract from x.
inline void compute(const ops::Precompute&, const KernelSet&, const KernelCall&) {}
// An operator with kReferenceOnCores is computed by its reference: a new one, or one that no model step takes to a core. It is slow there.
template <class O>
  requires(O::kReferenceOnCores)
Outcome compute(const O&, const KernelSet&, const KernelCall& call) {
  return run_reference(call);
}

// Working memory that grows to the largest call of its thread and is reused: a call allocates nothing once warm.
// `slot` tells buffers that live at the same time apart. Contents are undefined.
enum class Scratch : std::uint8_t { a, b, c, d, e, f, halves, quantised };  // the last: what int8_matmul.cpp keeps between calls
std::byte* scratch_bytes(Scratch slot, std::size_t bytes);
// Gives back the memory behind the first `kept` bytes of this thread's; the address stays. For what few calls need.
void forget_scratch(Scratch slot, std::size_t kept);
template <class T>
T* scratch(Scratch slot, std::size_t count) {
  return reinterpret_cast<T*>(scratch_bytes(slot, count * sizeof(T)));
}

}  // namespace vitro::cpu
