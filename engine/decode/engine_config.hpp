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

// `engine.clusters:` of the neuron-cluster policy; engine/ffn says what each means.
struct ClusterConfig {
  std::string pipeline = "cluster", eviction = "lru";
  std::uint32_t neurons = 64;  // most of one cluster
  std::string io_core;         // issues all reads; empty: the last of the units
  std::uint32_t io_depth = 8;
  Bytes staging = 4 * MiB;
  std::uint32_t dense_rows = 16;
  float threshold = 0;
  bool predictors = true;  // those of the model, if it has any; else every gate is computed
};

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
  ClusterConfig clusters;
  FunctionKind function = FunctionKind::compute;
  std::string record, replay;  // recordings to write, to read
  bool numerics() const { return function == FunctionKind::compute; }
};

struct MemoryConfig {
  std::optional<Bytes> budget;        // of everything in DRAM
  std::optional<double> ffn_in_dram;  // share of FFN bytes that may be cached; exclusive with budget
};

}  // namespace vitro
