#include "engine/app/scaling/reward_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/transformer/generator.hpp"

namespace vitro {
namespace {

// How many tokens all texts begin with; each keeps one of its own, whose logits are asked for.
std::size_t common_prefix(const std::vector<std::vector<std::int32_t>>& texts) {
  std::size_t length = texts.front().size() - 1;
  for (const auto& text : texts) {
    length = std::min(length, text.size() - 1);
    length = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), texts.front().begin()).first - text.begin());
  }
  return length;
}

}  // namespace

RewardModel::RewardModel(Transformer& model, Residency& residency, const Tokenizer& tokenizer, const ScorerConfig& config,
                         std::string prompt, std::uint32_t context)
    : model_(model), residency_(residency), tokenizer_(tokenizer), prompt_(std::move(prompt)), suffix_(config.suffix), context_(context) {
  token_ = only_token("token", config.token);
  if (!config.against.empty()) against_ = only_token("against", config.against);
}

std::int32_t RewardModel::only_token(std::string_view key, const std::string& text) const {
  const std::vector<std::int32_t> ids = tokenizer_.encode(text);
  if (ids.size() != 1) {
    throw ConfigError(
        fmt::format("workload.scaling.scorer.{}: \"{}\" is {} tokens of the reward model (expected one)", key, text, ids.size()));
  }
  return ids.front();
}

std::vector<std::int32_t> RewardModel::encode(const Sample& sample) const {
  std::vector<std::int32_t> ids;
  if (tokenizer_.add_bos() && tokenizer_.bos()) ids.push_back(*tokenizer_.bos());
  const std::vector<std::int32_t> text = tokenizer_.encode(prompt_ + sample.text + suffix_);
  ids.insert(ids.end(), text.begin(), text.end());
  if (ids.empty()) throw RunError("the reward model has no tokens to score: prompt, answer and suffix are empty, and it has no BOS token");
  if (ids.size() > context_) {
    throw RunError(fmt::format("prompt, answer and suffix are {} tokens of the reward model, whose context is {}", ids.size(), context_));
  }
  return ids;
}

Task<void> RewardModel::compute_prefix(std::uint32_t sequence, std::vector<std::int32_t> tokens) {
  for (std::uint32_t done = 0; done < tokens.size();) {
    StepInput step;
    step.choose = false;
    for (; done < tokens.size() && step.rows.size() < model_.max_rows(); ++done) {
      step.rows.push_back({sequence, done});
      step.tokens.push_back(tokens[done]);
    }
    co_await model_.step(std::move(step));
  }
}

Task<std::vector<double>> RewardModel::score(std::vector<const Sample*> samples) {
  std::vector<double> scores;
  if (samples.empty()) co_return scores;
  std::vector<std::vector<std::int32_t>> texts;
  for (const Sample* sample : samples) texts.push_back(encode(*sample));
  const std::size_t shared = common_prefix(texts);
  const std::uint32_t first = model_.kv().create();
  std::vector<std::int32_t> prefix(texts.front().begin(), texts.front().begin() + static_cast<std::ptrdiff_t>(shared));
  co_await compute_prefix(first, std::move(prefix));
  std::vector<std::uint32_t> sequences{first};
  for (std::size_t i = 1; i < texts.size(); ++i) sequences.push_back(model_.kv().fork(first));

  // Steps are filled with rows of one sample after the other; the last row of each is asked.
  auto position = static_cast<std::uint32_t>(shared);
  for (std::size_t i = 0; i < texts.size();) {
    StepInput step;
    step.choose = false;
    while (i < texts.size() && step.rows.size() < model_.max_rows()) {
      step.rows.push_back({sequences[i], position});
      step.tokens.push_back(texts[i][position]);
      if (++position < texts[i].size()) continue;
      step.sampled.push_back(static_cast<std::uint32_t>(step.rows.size() - 1));
      position = static_cast<std::uint32_t>(shared);
      ++i;
    }
    const std::size_t asked = step.sampled.size();
    co_await model_.step(std::move(step));
    for (std::size_t s = 0; s < asked; ++s) {
      const float* logits = model_.logits() + s * model_.vocab();
      scores.push_back(against_ ? double{logits[token_]} - double{logits[*against_]} : log_probability(logits, model_.vocab(), token_));
    }
  }
  for (const std::uint32_t sequence : sequences) model_.kv().release(sequence);
  co_return scores;
}

}  // namespace vitro
