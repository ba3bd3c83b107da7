// Loops that only read, beside which kernels bound by memory are measured.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/bench_weights.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

struct BenchRead {
  std::string name;
  std::function<std::uint64_t(int thread, int threads)> part;  // reads what one of several threads has to read of all copies
  std::vector<double> rates;                                    // GB/s, as measured
};

// Of every kernel set. They refer to the weights and the calls.
std::vector<BenchRead> stream_reads(const BenchWeights& weights);
// Rows at the offsets that the calls have, in that order. calls: one per thread.
std::vector<BenchRead> row_reads(const BenchWeights& weights, std::span<const KernelCall> calls);

}  // namespace vitro
