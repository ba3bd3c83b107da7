// What the `engine:` and `memory:` parts of an experiment may say.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/machine/kernel_call.hpp"

namespace vitro {

struct Sampling {
  float temperature = 0;  // 0: greedy
  std::uint32_t top_k = 0;
  float top_p = 1;
};

enum class FunctionKind : std::uint8_t { compute, replay, draw };

struct EngineConfig {
  std::string policy = "dense";
  std::vector<std::string> units;  // names; empty: `threads` fastest cores
  std::uint32_t threads = 1;
  std::string kernels = "auto";  // kernel set of the host CPU
  VariantId matmul;              // numeric contract of matrix products
  bool repack = true;            // tiled layouts where the variant can use them
  bool bundles = false;          // the FFN neuron by neuron (engine/model/bundle_layout.hpp)
  bool two_phases = false;       // of bundles: Gate in pages of its own
  Format kv_format = Format::f32;
  std::uint32_t kv_block_tokens = 16;
  std::uint32_t prefill_chunk = 128;
  Bytes read_ahead = 0;  // of the mmap policy
  FunctionKind function = FunctionKind::compute;
  std::string record, replay;  // recordings to write, to read
  bool numerics() const { return function == FunctionKind::compute; }
};

struct MemoryConfig {
  std::optional<Bytes> budget;        // of everything in DRAM
  std::optional<double> ffn_in_dram;  // share of FFN bytes that may be cached; exclusive with budget
};

}  // namespace vitro
