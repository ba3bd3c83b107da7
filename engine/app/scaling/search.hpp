// Best-of-N, self-consistency and step-level beam search over one batch that shares the prompt's KV cache (TTS-NPU, section 2.1).
#pragma once
#include <map>

#include "engine/app/scaling/scorer.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/transformer/generator.hpp"

namespace vitro {

struct ScalingRequest {
  GenerationRequest generation;  // its `sequences` is that of the configuration
  ScalingConfig config;
  const Tokenizer* tokenizer = nullptr;  // null: samples have no text
  Scorer* scorer = nullptr;              // null: samples vote
};

struct ScalingResult {
  GenerationResult generation;  // times; `tokens` are those of the samples
  // In the order in which they were begun, or for beam search the beams that survived, the best one first.
  std::vector<Sample> samples;
  std::size_t chosen = 0;                      // the highest score, or the first that gives the winning answer; ties: the lower index
  std::map<std::string, std::uint32_t> votes;  // by answer; a sample without one does not vote
  std::uint64_t generated = 0;                 // tokens chosen, also of beams that were given up and stop tokens
  std::uint32_t rounds = 0;                    // of scoring
  std::uint64_t scored_rows = 0;               // that a reward model computed for it
  Picoseconds scoring{};                       // in which the machine did nothing else
};

// Sample i of best_of_n and self_consistency is a function of the seed and of i: more samples keep the ones before.
Task<ScalingResult> scale(Machine* machine, Transformer* model, ScalingRequest request);

}  // namespace vitro
