// An experiment: which model runs which workload under which policy on which machine. Read from YAML, JSON or a dict;
// every key is checked, every quantity carries its unit.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/machine/kernel_call.hpp"

namespace vitro {

struct Sampling {
  float temperature = 0;  // 0: greedy
  std::uint32_t top_k = 0;
  float top_p = 1;
};

struct Workload {
  std::optional<std::string> prompt;
  std::uint32_t prompt_tokens = 0;  // without a prompt: this many drawn tokens
  std::uint32_t output_tokens = 32;
  std::uint32_t batch = 1;          // sequences that share the prompt
  bool stop_at_eos = true;
  Sampling sampling;
  std::uint64_t seed = 1;
};

enum class FunctionKind : std::uint8_t { compute, replay, draw };

struct EngineConfig {
  std::string policy = "dense";
  std::vector<std::string> units;   // names; empty: `threads` fastest cores
  std::uint32_t threads = 1;
  std::string kernels = "auto";     // kernel set of the host CPU
  VariantId matmul;                 // numeric contract of matrix products
  bool repack = true;               // tiled layouts where the variant can use them
  Format kv_format = Format::f32;
  std::uint32_t kv_block_tokens = 16;
  std::uint32_t prefill_chunk = 128;
  Bytes read_ahead = 0;             // of the mmap policy
  FunctionKind function = FunctionKind::compute;
  std::string record, replay, profile;  // files
  bool numerics() const { return function == FunctionKind::compute; }
};

struct MemoryConfig {
  std::optional<Bytes> budget;          // of everything in DRAM
  std::optional<double> ffn_in_dram;    // share of FFN bytes that may be cached; exclusive with budget
};

struct ModelSource {
  std::string gguf;            // a file with weights, or
  std::optional<Node> shape;   // shapes alone
};

struct Experiment {
  std::string name;
  std::string machine = "sim";
  Node device;                 // null on an uncalibrated host
  ModelSource model;
  EngineConfig engine;
  Workload workload;
  MemoryConfig memory;
  Node expect;                 // checked by the command line
  Node resolved;               // the whole tree, as composed
};

// Reads a composed tree. Throws ConfigError; relative paths in it are already resolved.
Experiment read_experiment(const Node& root);

// Composes an experiment: parts given by path are read (relative to the file that names them) and put in place,
// then `a.b=value` overrides are applied. `machine` replaces the key of that name when not empty.
// In compose.cpp, with the YAML reader; vitro-device reads the result as JSON.
Node compose_experiment(const Node& root, const std::string& base_directory, const std::vector<std::string>& overrides,
                        const std::string& machine);
Node load_experiment(const std::string& path, const std::vector<std::string>& overrides, const std::string& machine);

}  // namespace vitro
