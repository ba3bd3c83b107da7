// Devices with an NPU for tests: memory and NPU of the OnePlus 12, with changes; and work for it.
#pragma once
#include <ostream>
#include <string>

#include "hw_models/npu/probe.hpp"

namespace vitro::hw {

// `changes` is the inside of a YAML map over dotted names: "npu.tcm: 1 MiB, dram.bandwidth: 30 GB/s".
Node phone(const std::string& changes = "");

struct Weights {
  std::string format;
  Bytes block = 0;  // bytes of 32 weights
};
inline void PrintTo(const Weights& weights, std::ostream* out) { *out << weights.format; }
inline const Weights kF16{"f16", 64}, kQ8{"q8_0", 34}, kQ4{"q4_0", 18};

// [m, k] x [k, n] of the "float" variant: weights of the format and float32 activations, all in DRAM.
Work product(ComputeModel& model, const Weights& weights, std::uint32_t m, std::uint32_t n, std::uint32_t k);
// 1024 x 1024 x 1024 in float16, all operands in TCM (TTS-NPU Table 2).
Work product_in_tcm(ComputeModel& model, const std::string& variant);

}  // namespace vitro::hw
