// Generation: prefill in chunks, then one token per sequence and step, until every sequence has ended.
#pragma once
#include <functional>

#include "engine/decode/transformer.hpp"

namespace vitro {

struct GenerationRequest {
  std::vector<std::int32_t> prompt;  // with BOS where the model wants one; not empty
  std::uint32_t output_tokens = 1;
  std::uint32_t sequences = 1;  // all start from the prompt, which is computed once and forked
  std::uint32_t prefill_chunk = 128;
  std::optional<std::int32_t> stop_token;
  Sampling sampling;
  std::function<void()> on_first_token;
  std::function<void(std::uint64_t done, std::uint64_t total)> on_step;  // decode steps, for progress
};

struct GenerationResult {
  std::vector<std::vector<std::int32_t>> tokens;  // per sequence; a stop token is not part of it
  Picoseconds begin{}, first_token{}, end{};
  std::vector<Picoseconds> step_times;  // of each decode step, after the first token
  std::uint64_t decoded = 0;            // tokens over all sequences in those steps
};

// Greedy or sampled decoding; draws are a function of seed, sequence and position. Sequences end independently: their
// KV blocks return at once.
Task<GenerationResult> generate(Machine* machine, Transformer* model, GenerationRequest request);

// Mean negative log-likelihood (natural log) of `tokens`, in chunks of `chunk` tokens, each preceded by `bos` when
// given, every token of a chunk scored. A step computes at most `step_rows` of them. Requires: numerics.
struct Likelihood {
  struct Chunk {
    double nll = 0;  // sum over the chunk
    std::uint64_t tokens = 0;
  };
  double nll = 0;
  std::uint64_t tokens = 0;
  std::vector<Chunk> chunks;
};
Task<Likelihood> score(Transformer* model, std::vector<std::int32_t> tokens, std::optional<std::int32_t> bos, std::uint32_t chunk,
                       std::uint32_t step_rows, std::uint32_t vocab);

}  // namespace vitro
