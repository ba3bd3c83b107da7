// Runs an experiment on a machine, and reports what happened as `vitro.result/1`.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/app/experiment.hpp"
#include "engine/app/machines.hpp"
#include "engine/app/run_files.hpp"
#include "engine/app/scaling/scorer.hpp"
#include "engine/parts/ffn/moe_stats.hpp"
#include "engine/parts/weights/residency.hpp"
#include "engine/transformer/generator.hpp"

namespace vitro {

struct SessionOptions {
  std::string out_dir;    // trace.json and decisions.jsonl go there; empty: nothing is written
  std::string cache_dir;  // packed models
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // decode steps
  // A folder for what the FFNs are given (traces/input_sampler.hpp), and how many rows of each; empty: none are kept.
  std::string ffn_inputs;
  std::size_t ffn_input_rows = 0;
  std::uint32_t context = 0;  // of measure_perplexity(): positions of a window, BOS included; 0: the model's context
  ScoreFunction scorer;  // of workload.scaling.scorer.kind: python
};

// Throws ConfigError before anything has run or been written, RunError when the run failed.
nlohmann::ordered_json run_experiment(const Experiment& experiment, const SessionOptions& options, const MachineFactory& machines);

// The result as text: a model may generate bytes that are no UTF-8, and JSON has to be; they become U+FFFD.
std::string to_text(const nlohmann::ordered_json& result, int indent = -1);
// result.json of a folder that exists: all of it, or nothing new is there under that name. Throws ConfigError or RunError.
void write_result(const std::string& folder, const nlohmann::ordered_json& result);

struct PerplexityResult {
  Likelihood likelihood;
  CacheStats stats;
  std::optional<MoeStats> experts;  // none: the policy does not group a mixture's experts
};
// Protocol: the text is tokenised as one string, cut into consecutive chunks of `options.context - 1` tokens, each preceded by
// BOS when the model uses one, every token of a chunk scored, in steps of engine.prefill_chunk tokens. With 1 each token is
// computed as in decoding: sparsely, when the policy does. Memory: keys and values of one window (or of the text, where that is
// shorter) and logits of one step. A file that does not state its model's context has windows of 512 unless it is asked for others.
// Throws ConfigError for a window below 2 or beyond the model's context, and a text without a token to score.
PerplexityResult measure_perplexity(const Experiment& experiment, const std::string& text, const SessionOptions& options,
                                    const MachineFactory& machines);

}  // namespace vitro
