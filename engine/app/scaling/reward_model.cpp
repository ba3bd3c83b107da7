#include "engine/app/scaling/reward_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/transformer/generator.hpp"

namespace vitro {
namespace {

// How many tokens both begin with, but for the last one of `a`, whose answer is asked for.
std::uint32_t common_prefix(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b, std::size_t most) {
  const auto length = static_cast<std::ptrdiff_t>(std::min({a.size() - 1, b.size(), most}));
  return static_cast<std::uint32_t>(std::mismatch(a.begin(), a.begin() + length, b.begin()).first - a.begin());
}

// Sequences of a round. They end with it, unless they are kept: also when a step of it fails.
struct Round {
  explicit Round(KvCache& cache) : kv(cache) {}
  ~Round() {
    for (const std::uint32_t sequence : sequences) kv.release(sequence);
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  KvCache& kv;
  std::vector<std::uint32_t> sequences;
};

}  // namespace

RewardModel::RewardModel(Transformer& model, Residency& residency, const Tokenizer* tokenizer, const ScorerConfig& config, Prompt prompt,
                         std::uint32_t context, std::uint64_t seed)
    : model_(model),
      residency_(residency),
      tokenizer_(tokenizer),
      prompt_(std::move(prompt)),
      suffix_(config.suffix),
      context_(context),
      incremental_(config.incremental),
      drawn_(config.drawn),
      seed_(seed) {
  if (tokenizer_ == nullptr) return;
  if (!config.token.empty()) token_ = only_token("token", config.token);
  if (!config.against.empty()) against_ = only_token("against", config.against);
}

std::int32_t RewardModel::only_token(std::string_view key, const std::string& text) const {
  const std::vector<std::int32_t> ids = tokenizer_->encode(text);
  if (ids.size() != 1) {
    throw ConfigError(
        fmt::format("workload.scaling.scorer.{}: \"{}\" is {} tokens of the reward model (expected one)", key, text, ids.size()));
  }
  return ids.front();
}

RewardModel::Tokens RewardModel::encode(const Sample& sample) const {
  Tokens ids;
  if (tokenizer_ != nullptr) {
    if (tokenizer_->add_bos() && tokenizer_->bos()) ids.push_back(*tokenizer_->bos());
    const Tokens text = tokenizer_->encode(*prompt_.text + sample.text + suffix_);
    ids.insert(ids.end(), text.begin(), text.end());
  } else {  // as many, whatever they are
    for (const Tokens* tokens : {&prompt_.tokens, &sample.tokens}) {
      for (const std::int32_t token : *tokens) ids.push_back(token % static_cast<std::int32_t>(model_.vocab()));
    }
  }
  if (ids.empty()) throw RunError("the reward model has no tokens to score: prompt, answer and suffix are empty, and it has no BOS token");
  if (ids.size() > context_) {
    throw RunError(fmt::format("prompt, answer and suffix are {} tokens of the reward model, whose context is {}", ids.size(), context_));
  }
  return ids;
}

// What tells samples apart: their text, or where there is none their tokens.
std::string RewardModel::key_of(const Sample& sample) const {
  if (tokenizer_ != nullptr) return sample.text;
  return {reinterpret_cast<const char*>(sample.tokens.data()), sample.tokens.size() * sizeof(std::int32_t)};
}

// A sequence for each text. Texts that continue one kept text after the same token, or none, form a group: what they have in common
// behind it is a beginning, which is computed before they part. Each group has one sequence until its beginning is computed; every further
// text forks it then.
std::vector<std::uint32_t> RewardModel::continued_by(const std::vector<Tokens>& texts, std::vector<Begun>& beginnings) {
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<std::size_t>> groups;  // by kept text and tokens of it
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::pair<std::size_t, std::uint32_t> best{kept_.size(), 0};
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      const std::uint32_t length = common_prefix(texts[i], kept_[k].tokens, context_);
      if (length > best.second) best = {k, length};
    }
    groups[best].push_back(i);
  }
  std::vector<std::uint32_t> beginning_of(texts.size());
  for (const auto& [from, members] : groups) {
    const auto [kept, held] = from;
    const std::uint32_t sequence = held > 0 ? model_.kv().fork(kept_[kept].sequence, held) : model_.kv().create();
    const Tokens& first = texts[members.front()];
    auto shared = static_cast<std::uint32_t>(first.size() - 1);
    for (const std::size_t i : members) {
      shared = std::min(shared, common_prefix(texts[i], first, shared));
      beginning_of[i] = static_cast<std::uint32_t>(beginnings.size());
    }
    beginnings.push_back({&first, sequence, held, shared});
  }
  return beginning_of;
}

double RewardModel::score_of(std::size_t row) const {
  if (!token_) return model_.values()[row];
  const float* logits = model_.logits() + row * model_.vocab();
  return against_ ? double{logits[*token_]} - double{logits[*against_]} : log_probability(logits, model_.vocab(), *token_);
}

// Steps are filled with rows of one text after the other. `asked`: the last row of each text has a score.
Task<void> RewardModel::compute(std::vector<Begun> texts, bool asked, std::vector<double>* scores) {
  for (auto text = texts.begin(); text != texts.end();) {
    StepInput step;
    step.choose = false;
    while (text != texts.end() && step.rows.size() < model_.max_rows()) {
      if (text->done < text->end) {
        step.rows.push_back({text->sequence, text->done});
        step.tokens.push_back((*text->tokens)[text->done]);
        ++text->done;
      }
      if (text->done < text->end) continue;
      if (asked) step.sampled.push_back(static_cast<std::uint32_t>(step.rows.size() - 1));
      ++text;
    }
    if (step.rows.empty()) co_return;
    rows_ += step.rows.size();
    const std::size_t answers = step.sampled.size();
    co_await model_.step(std::move(step));
    for (std::size_t row = 0; row < answers && !drawn_; ++row) scores->push_back(score_of(row));
  }
}

Task<std::vector<double>> RewardModel::score(std::vector<const Sample*> samples) {
  std::vector<double> scores;
  if (samples.empty()) co_return scores;
  std::vector<Tokens> texts;
  for (const Sample* sample : samples) texts.push_back(encode(*sample));
  std::vector<Begun> beginnings;
  const std::vector<std::uint32_t> beginning_of = continued_by(texts, beginnings);
  Round round(model_.kv());
  for (const Begun& beginning : beginnings) round.sequences.push_back(beginning.sequence);
  co_await compute(beginnings, false, nullptr);

  std::vector<Begun> rests;
  std::vector<bool> taken(beginnings.size(), false);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Begun& beginning = beginnings[beginning_of[i]];
    std::uint32_t sequence = beginning.sequence;
    if (taken[beginning_of[i]]) {
      sequence = model_.kv().fork(beginning.sequence);
      round.sequences.push_back(sequence);
    }
    taken[beginning_of[i]] = true;
    rests.push_back({&texts[i], sequence, beginning.end, static_cast<std::uint32_t>(texts[i].size())});
  }
  co_await compute(rests, true, &scores);
  for (std::size_t i = 0; i < samples.size() && drawn_; ++i) scores.push_back(drawn_score(*samples[i], seed_));

  release(kept_);
  if (!incremental_) co_return scores;
  for (std::size_t i = 0; i < texts.size(); ++i) kept_.push_back({key_of(*samples[i]), std::move(texts[i]), rests[i].sequence});
  round.sequences.clear();
  co_return scores;
}

// Of equal texts the first stays: all would be continued from the same tokens.
void RewardModel::keep(const std::vector<const Sample*>& samples) {
  std::set<std::string> wanted;
  for (const Sample* sample : samples) wanted.insert(key_of(*sample));
  std::vector<Kept> stay, others;
  for (Kept& kept : kept_) (wanted.erase(kept.text) > 0 ? stay : others).push_back(std::move(kept));
  kept_ = std::move(stay);
  release(others);
}

void RewardModel::release(std::vector<Kept>& texts) {
  for (const Kept& kept : texts) model_.kv().release(kept.sequence);
  texts.clear();
}

}  // namespace vitro
