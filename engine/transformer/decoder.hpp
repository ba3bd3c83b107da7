// A decoder: the parts that an experiment chose, put together over one machine.
#pragma once
#include <memory>

#include "engine/parts/engine_config.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {

// What the engine keeps beside weights and activations: names, extents and page records. Charged so that the budget is that of the
// whole process.
Bytes runtime_bytes(const ModelConfig& config, Bytes weight_bytes, std::size_t weights);

struct PolicyLimits {
  std::uint32_t max_rows = 1, max_sampled = 1, max_tokens = 1, max_position = 1, sequences = 1;
  std::uint32_t prompt_rows = 0;  // of one sequence, to be computed before it decodes
  std::uint32_t first_sequence = 0;  // their numbers begin with it
  bool value = false;             // the model's value head answers, and nothing is drawn
};

// The adapters of `engine.lora`, in its order, and how the neurons of the base lie if not as in its model.
struct DecoderAdapters {
  std::vector<LoraAdapter> all;
  const NeuronOrder* neurons = nullptr;
};

// Lives on one machine and dies before it.
struct Decoder {
  std::unique_ptr<GraphCache> graphs;
  std::unique_ptr<WeightStore> in_dram;      // all weights but the embedding; null: all of them
  std::unique_ptr<EmbeddingRows> embedding;  // null: it is among the weights
  std::unique_ptr<UnitPlacement> placement;
  std::unique_ptr<Residency> residency;
  std::unique_ptr<LoraBank> adapters;  // null: the base alone
  std::unique_ptr<Residency> copy;     // of the layers' matrices in another form; null: there is none
  Ffn ffn;
  std::unique_ptr<Transformer> transformer;
  Lease runtime;     // what the engine itself keeps per model, charged to the budget
  Bytes mapped = 0;  // into sessions of the accelerator: weights, and the keys and values that it reads

  // All that the first token needs but the copy. Throws RunError on a read error, ConfigError when the budget is too small.
  Task<void> load();
  // Of the cache of weights or neurons, whichever there is.
  CacheStats cache_stats() const;
  const MoeStats* experts() const { return ffn.stage() != nullptr ? ffn.stage()->experts() : nullptr; }
};

// Carries out `work` on a decoder, whatever ends it: what a step began for a next one that never comes has to end before the machine does.
// Requires: the decoder outlives the task.
Task<void> settled(Task<void> work, Decoder* decoder);

// `copy`: the layers' matrices once more, as the accelerator of the placement `prompts` reads them; null for others. `beside`: another
// model on the machine, with which it shares the accelerator's sessions; it is there as long.
// Throws ConfigError for units that the machine lacks, for parts that do not fit each other, and for a budget that is too small.
// Requires: every kind that `engine` names is registered (read_engine saw to it).
Decoder make_decoder(Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& model,
                     const WeightStore& weights, const PolicyLimits& limits, const WeightStore* copy = nullptr,
                     const DecoderAdapters& adapters = {}, const Decoder* beside = nullptr);

}  // namespace vitro
