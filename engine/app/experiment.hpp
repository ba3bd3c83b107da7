// An experiment: which model runs which workload under which policy on which machine. Read from YAML, JSON or a dict;
// every key is checked, every quantity carries its unit.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/app/scaling/scaling_config.hpp"
#include "engine/base/config.hpp"
#include "engine/parts/engine_config.hpp"
#include "engine/faults/fault_plan.hpp"
#include "engine/transformer/kept_in.hpp"
#include "engine/transformer/sampling.hpp"
#include "traces/draw.hpp"

namespace vitro {

// Products alone, without a model around them: what a paper's kernel benchmarks measure. Each shape has weights of its own, is shared out
// by columns over engine.units and repeated within one submission.
struct MatmulWorkload {
  struct Shape {
    std::uint32_t columns = 0, depth = 0;  // weights are [columns, depth]
  };
  std::vector<Shape> shapes;
  std::uint32_t rows = 1;  // of activations
  std::uint32_t repeat = 16;
  Format format = Format::q4_0;
};

// Softmax alone (TTS-NPU 7.4). One call of one unit does it `repeat` times over scores that come in once.
struct SoftmaxWorkload {
  std::uint32_t rows = 1, columns = 0;  // [rows, columns]: queries and keys of a head
  Exponential exponential = Exponential::table;
  std::uint32_t repeat = 1024;
};

// One of several that a run serves one after the other, with the same adapters in memory.
struct Request {
  std::optional<std::string> prompt;
  std::uint32_t prompt_tokens = 0;      // without a prompt: this many drawn tokens
  std::vector<std::uint32_t> adapters;  // [batch] of each sequence, as LoraConfig::names() numbers them; empty: none
  // Names of sequences that outlive a request (transformer/kept_sequences.hpp): the prompt, which may then be empty, goes on after one that
  // an earlier request kept; its own sequence, the only one, is kept for later ones; empty: none.
  std::string goes_on, keep_as;
};

struct Workload {
  std::optional<std::string> prompt;   // of requests that have none of their own
  std::uint32_t prompt_tokens = 0;     // likewise
  std::uint32_t output_tokens = 32;    // of the longest sequence
  std::vector<std::uint32_t> lengths;  // [batch] output tokens of each sequence
  std::uint32_t batch = 1;             // sequences that share the prompt
  std::vector<Request> requests;       // one or more; a workload of operators has none
  std::uint32_t warmup_tokens = 0;     // decode steps before those that metrics of decoding are of
  bool stop_at_eos = true;
  Sampling sampling;
  std::uint64_t seed = 1;
  // Files with keys and values (transformer/saved_sequence.hpp): written when the sequence has ended; read before the prompt, which goes on
  // after it and may then be empty.
  std::string save_kv, restore_kv;
  KeptIn kept_in = KeptIn::dram;  // of sequences that requests keep
  std::optional<ScalingConfig> scaling;  // its samples take the place of batch
  // In place of a prompt; at most one of them.
  std::optional<MatmulWorkload> products;
  std::optional<SoftmaxWorkload> softmax;
};

// What is traced where a run leaves files. json: at most 4 million events, exact to the picosecond. perfetto: written as the run goes,
// without a limit, in whole nanoseconds.
enum class TraceFormat : std::uint8_t { json, perfetto };
struct TraceConfig {
  TraceFormat format = TraceFormat::json;
  std::uint32_t first_token = 1, tokens = 0;  // of each request; the prompt makes the first one; 0: to the end
  bool flows = false;                         // reads are drawn to the kernels that take what they brought

  // Whether the step after so many tokens is traced.
  bool holds(std::uint64_t generated) const {
    return generated + 1 >= first_token && (tokens == 0 || generated + 1 < std::uint64_t{first_token} + tokens);
  }
};

struct ModelSource {
  std::string gguf;           // a file with weights,
  std::string pack;           // packed from it by hand; empty: the cache has or makes one; or
  std::optional<Node> shape;  // shapes alone
  std::string shape_at = "model";  // the key that these stand under, for messages
  Origin gguf_at;                  // where an experiment names the file
};

struct Experiment {
  std::string name;
  std::string file;  // that it was read from; empty: none
  std::string machine = "sim";
  Node device;  // null on an uncalibrated host
  ModelSource model;
  EngineConfig engine;
  DrawProfile profile;         // of engine.function: draw
  bool profile_given = false;  // by the engine or the model; else it is the default one
  Workload workload;
  MemoryConfig memory;
  std::optional<FaultPlan> faults;  // that the machine is to make
  TraceConfig trace;
  Node expect;    // checked by the command line
  Node resolved;  // everything that was read, the defaults of absent keys included; the device and a model's shapes as they were given
};

// Firing statistics of a model without weights (traces/draw_profile.hpp): one entry for all layers, or one per layer.
DrawProfile read_profile(Reader reader);

// Reads a composed tree. Throws ConfigError; relative paths in it are already resolved.
Experiment read_experiment(const Node& root);

// Composes an experiment: parts given by path are read (relative to the file that names them) and put in place,
// then `a.b=value` overrides are applied. One that a file has, as a sweep's point does, says so on a line before it: `@exp.yaml:12`, and
// its paths start at that file; those of others start at the working directory. `machine` replaces the key of that name when not empty.
// In compose.cpp, with the YAML reader; vitro-device reads the result as JSON.
Node compose_experiment(const Node& root, const std::string& base_directory, const std::vector<std::string>& overrides,
                        const std::string& machine);
Node load_experiment(const std::string& path, const std::vector<std::string>& overrides, const std::string& machine);

}  // namespace vitro
