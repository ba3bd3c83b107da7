// Generation: prefill in chunks, then one token per sequence and step, until every sequence has ended.
#pragma once
#include <functional>

#include "engine/transformer/kept_sequences.hpp"
#include "engine/transformer/saved_sequence.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {

// One sequence of a batch that decodes.
struct ActiveSequence {
  std::size_t index = 0;       // the caller's own number for it
  std::uint32_t sequence = 0;  // in the KV cache
  std::int32_t last = 0;       // chosen, and not in the cache yet
};

// What becomes of a sequence whose next token has been chosen: it decodes on; it keeps its place in the cache and waits; or its
// blocks return at once.
enum class Next : std::uint8_t { go_on, rest, end };
// `logits` [vocab]: what the token was chosen from; null in a phantom run.
using OnChoice = std::function<Next(std::size_t index, std::int32_t token, const float* logits)>;

struct GenerationRequest {
  std::vector<std::int32_t> prompt;     // with BOS where the model wants one; not empty, but where a kept sequence goes on
  std::uint32_t output_tokens = 1;      // of the longest sequence
  std::vector<std::uint32_t> lengths;   // [sequences] of each; empty: all alike
  std::uint32_t sequences = 1;          // all start from the prompt, which is computed once for each adapter and forked
  std::vector<std::uint32_t> adapters;  // [sequences] of each (KvCache::create); empty: the base alone
  std::uint32_t prefill_chunk = 128;
  std::optional<std::int32_t> stop_token;
  Sampling sampling;
  // The prompt goes on after a saved sequence, whose last token it begins with; null: it begins a sequence. Outlives the request.
  const SavedSequence* restored = nullptr;
  std::string save_to;  // the file for the sequence when it has ended, of a request for one; empty: none
  // Names among `kept`, which outlives the request: of the sequence that the prompt goes on after, and, of a request for one, under which
  // its sequence is kept when it has ended; empty: none.
  std::string goes_on, keep_as;
  KeptSequences* kept = nullptr;
  std::uint32_t before = 0;  // positions that the prompt goes on after, at most
  SequenceOrigin origin;
  std::function<void()> on_first_token;
  std::function<void(std::uint64_t done, std::uint64_t total)> on_step;  // decode steps, for progress

  // What is computed for the first token: a sequence that was kept has one token without a position.
  std::uint32_t prompt_rows() const { return static_cast<std::uint32_t>(prompt.size()) + (goes_on.empty() ? 0 : 1); }
  // Whether its sequence takes the place of the one that it goes on after.
  bool replaces() const { return !goes_on.empty() && goes_on == keep_as; }
};

struct GenerationResult {
  std::vector<std::vector<std::int32_t>> tokens;  // per sequence; a stop token is not part of it
  Picoseconds begin{}, first_token{}, end{};
  std::uint32_t prefill_rows = 0, kept_rows = 0;  // computed for the prompts; taken from saved or kept sequences
  Picoseconds restoring{}, keeping{};             // before the first row of a prompt; after `end`
  std::vector<Picoseconds> step_times;     // of each decode step, after the first token
  std::vector<std::uint32_t> step_tokens;  // tokens chosen in it: sequences that still decoded
  std::uint64_t decoded = 0;               // tokens over all sequences in those steps
};

// Computes the prompt, forks it, and chooses every sequence's first token. The sequences that it leaves are those that go on, by ascending
// index, but those of one adapter together; what rests is added to `resting`. Requires: the pointers outlive the task; also below.
Task<std::vector<ActiveSequence>> begin_sequences(Machine* machine, Transformer* model, const GenerationRequest* request,
                                                  const OnChoice* on_choice, GenerationResult* times, std::vector<ActiveSequence>* resting);
// Decodes until nothing goes on. Draws are a function of seed, sequence and position.
Task<void> decode_sequences(Machine* machine, Transformer* model, std::vector<ActiveSequence> live, const GenerationRequest* request,
                            const OnChoice* on_choice, GenerationResult* times, std::vector<ActiveSequence>* resting);

// Greedy or sampled decoding. Sequences end independently: their KV blocks return at once.
Task<GenerationResult> generate(Machine* machine, Transformer* model, GenerationRequest request);

// log p(token), natural logarithm, of the distribution that `logits` [vocab] stand for at temperature 1.
double log_probability(const float* logits, std::uint32_t vocab, std::int32_t token);

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
                       std::uint32_t step_rows, std::uint32_t vocab, std::uint32_t adapter = 0);
// How many prompts a request computes: one for each adapter among its sequences.
std::uint32_t prompts_of(const GenerationRequest& request);

}  // namespace vitro
