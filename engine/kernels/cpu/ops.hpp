// The operators over a KernelSet. Each is the whole of contract.hpp for its Op, apart from the inner loops.
// Requires (all): check_call(call) passed. Scratch is per thread.
#pragma once
#include "engine/kernels/common/kernel_set.hpp"

namespace vitro::ops {

void embed(const KernelSet& set, const KernelCall& call);
void rms_norm(const KernelSet& set, const KernelCall& call);
void matmul(const KernelSet& set, const KernelCall& call);
void rope(const KernelCall& call);
void kv_append(const KernelSet& set, const KernelCall& call);
void attention(const KernelSet& set, const KernelCall& call);
Outcome glu(const KernelSet& set, const KernelCall& call);
void add(const KernelCall& call);
void gather(const KernelCall& call);
Outcome route(const KernelSet& set, const KernelCall& call);
void expert_sum(const KernelSet& set, const KernelCall& call);
void reduce(const KernelCall& call);
Outcome sample(const KernelSet& set, const KernelCall& call);
void copy(const KernelCall& call);
Outcome select(const KernelSet& set, const KernelCall& call);
void accumulate(const KernelSet& set, const KernelCall& call);

// Working memory that grows to the largest call of its thread and is reused: a call allocates nothing once warm.
// `slot` tells buffers that live at the same time apart. Contents are undefined.
enum class Scratch : std::uint8_t { a, b, c, d, e, f };
std::byte* scratch_bytes(Scratch slot, std::size_t bytes);
template <class T>
T* scratch(Scratch slot, std::size_t count) {
  return reinterpret_cast<T*>(scratch_bytes(slot, count * sizeof(T)));
}

}  // namespace vitro::ops
