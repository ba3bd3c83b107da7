// `workload.scaling`: more computation at test time instead of a larger model (TTS-NPU, section 2.1).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/app/scaling/text_pattern.hpp"

namespace vitro {

enum class ScalingMethod : std::uint8_t { best_of_n, self_consistency, beam_search };
std::string_view to_string(ScalingMethod method);

struct ScorerConfig {
  enum class Kind : std::uint8_t { log_probability, regex, model, python, drawn };
  Kind kind = Kind::log_probability;
  bool per_token = true;              // log_probability: the mean over a sample's tokens, else their sum
  std::vector<TextPattern> patterns;  // regex: the score is the share of them that occur
  std::string gguf;                   // model: a reward model,
  std::optional<Node> shape;          // or its shapes, as `model.shape`, or `model` with them: its rows are priced alone
  bool drawn = false;                 // nothing is computed: the model's rows are priced, and scores are drawn
  std::string suffix;                 // what it reads behind prompt and answer
  std::string token, against;         // the score is log p(token), or with `against` the log-odds of the two; empty: the value head's
  bool incremental = true;            // keys and values of a text stay for what is added to it
  bool beside_model = false;          // on the units of the model, its accelerator among them, else on the cores among them
  std::uint32_t context = 0;          // the longest text in tokens of the reward model; 0: as long as the model can read
};
std::string_view to_string(ScorerConfig::Kind kind);

struct ScalingConfig {
  ScalingMethod method = ScalingMethod::best_of_n;
  std::uint32_t samples = 1;  // sequences that decode side by side
  std::uint32_t width = 1;    // beam_search: beams that survive a step; divides samples
  std::string step_until;     // beam_search: a step ends when its text holds this; empty: at step_tokens alone
  std::uint32_t step_tokens = 32;
  ScorerConfig scorer;
  std::optional<TextPattern> answer;  // self_consistency: its first group is what samples vote with
};

// Throws ConfigError; consumes and finishes the reader. `numerics`: whether there will be logits and text to judge.
ScalingConfig read_scaling(Reader reader, bool numerics);

}  // namespace vitro
