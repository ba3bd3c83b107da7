#include "engine/transformer/check_answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/check.hpp"

namespace vitro {

void check_choices(const std::vector<ExpertChoice>& choices, std::size_t rows, const ModelConfig& config, int layer) {
  const auto fail = [&](const std::string& problem) {
    throw RunError(fmt::format("the router of layer {}: a unit answered with {} (expected {} of {} experts for each of {} rows)", layer,
                               problem, config.experts_used, config.experts, rows));
  };
  if (choices.size() != rows) fail(fmt::format("{} rows", choices.size()));
  for (const ExpertChoice& choice : choices) {
    if (choice.ids.size() != config.experts_used || choice.weights.size() != choice.ids.size()) {
      fail(fmt::format("{} experts and {} weights", choice.ids.size(), choice.weights.size()));
    }
    for (auto id = choice.ids.begin(); id != choice.ids.end(); ++id) {
      if (*id >= config.experts) fail(fmt::format("expert {}", *id));
      if (std::find(choice.ids.begin(), id, *id) != id) fail(fmt::format("expert {} twice", *id));
    }
    if (!std::ranges::all_of(choice.weights, [](float w) { return std::isfinite(w); })) fail("a weight that is no number");
  }
}

void check_tokens(const TokenChoice& choice, std::size_t rows, const ModelConfig& config) {
  if (choice.tokens.size() != rows) {
    throw RunError(fmt::format("sampling: a unit answered with {} tokens (expected {})", choice.tokens.size(), rows));
  }
  for (const std::int32_t token : choice.tokens) {
    if (token >= 0 && static_cast<std::uint32_t>(token) < config.vocab) continue;
    throw RunError(fmt::format("sampling: a unit answered with token {} (expected 0 to {})", token, config.vocab - 1));
  }
}

}  // namespace vitro
