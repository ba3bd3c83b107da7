#include "engine/app/scaling/scaling_config.hpp"

#include <fmt/format.h>

#include <array>

namespace vitro {
namespace {

using Kind = ScorerConfig::Kind;

constexpr std::array<std::pair<std::string_view, ScalingMethod>, 3> kMethods{{{"best_of_n", ScalingMethod::best_of_n},
                                                                              {"self_consistency", ScalingMethod::self_consistency},
                                                                              {"beam_search", ScalingMethod::beam_search}}};
constexpr std::array<std::pair<std::string_view, Kind>, 5> kKinds{{{"log_probability", Kind::log_probability},
                                                                   {"regex", Kind::regex},
                                                                   {"model", Kind::model},
                                                                   {"python", Kind::python},
                                                                   {"drawn", Kind::drawn}}};

template <class Value, std::size_t n>
Value read_choice(Reader& reader, std::string_view key, const std::array<std::pair<std::string_view, Value>, n>& table,
                  std::string_view otherwise = {}) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.first);
  const std::string chosen = reader.choice(key, names, otherwise);
  for (const auto& [name, value] : table) {
    if (name == chosen) return value;
  }
  return table.front().second;
}

template <class Value, std::size_t n>
std::string_view name_in(const std::array<std::pair<std::string_view, Value>, n>& table, Value value) {
  for (const auto& [name, known] : table) {
    if (known == value) return name;
  }
  return "?";
}

std::vector<TextPattern> read_patterns(Reader& reader) {
  const bool ignore_case = reader.boolean("ignore_case", false);
  std::vector<TextPattern> patterns;
  for (const Node& node : reader.list("patterns")) {
    if (!node.is_scalar()) fail_at(node.origin(), reader.name_of("patterns"), "has an entry that is not a text");
    patterns.push_back(TextPattern::read(reader, "patterns", node.text(), ignore_case));
  }
  if (patterns.empty()) reader.fail("patterns", "is empty (expected regular expressions)");
  return patterns;
}

// A file with weights, or shapes where nothing is computed.
void read_judge(Reader& reader, ScorerConfig& scorer) {
  if (!reader.has("shape")) {
    scorer.gguf = reader.text("gguf");
    return;
  }
  if (reader.has("gguf")) reader.fail("shape", "can not be combined with gguf (expected one of the two)");
  if (!scorer.drawn) reader.fail("shape", "has no weights, and engine.function computes values (expected gguf, or engine.numerics: off)");
  scorer.shape = *reader.raw("shape");
  for (const char* key : {"suffix", "token", "against"}) {
    if (reader.has(key)) reader.fail(key, "is text, and a model of shapes has no tokenizer (remove it)");
  }
}

ScorerConfig read_scorer(Reader reader, bool numerics) {
  ScorerConfig scorer;
  scorer.kind = read_choice(reader, "kind", kKinds);
  if (!numerics && scorer.kind != Kind::drawn && scorer.kind != Kind::model) {
    reader.fail("kind", fmt::format("{} needs computed values, but engine.function computes none (expected drawn, or model)",
                                    to_string(scorer.kind)));
  }
  scorer.drawn = !numerics;
  switch (scorer.kind) {
    case Kind::log_probability:
      scorer.per_token = reader.choice("over", {"mean", "sum"}, "mean") == "mean";
      break;
    case Kind::regex:
      scorer.patterns = read_patterns(reader);
      break;
    case Kind::model:
      read_judge(reader, scorer);
      scorer.suffix = reader.text("suffix", "");
      scorer.token = reader.text("token", "");
      scorer.against = reader.text("against", "");
      if (scorer.token.empty() && !scorer.against.empty()) reader.fail("against", "needs the token that it is against (expected token)");
      scorer.incremental = reader.boolean("incremental", true);
      scorer.beside_model = reader.choice("placement", {"cores", "model"}, "cores") == "model";
      scorer.context = static_cast<std::uint32_t>(reader.integer("context", 2, 1 << 20, 0));
      break;
    case Kind::python:
    case Kind::drawn:
      break;
  }
  reader.finish();
  return scorer;
}

void read_step(Reader reader, ScalingConfig& config, bool numerics) {
  config.step_until = reader.text("until", "");
  if (!numerics && !config.step_until.empty()) {
    reader.fail("until", "needs text, but engine.function computes none (expected max_tokens alone)");
  }
  config.step_tokens = static_cast<std::uint32_t>(reader.integer("max_tokens", 1, 1 << 20, config.step_tokens));
  reader.finish();
}

}  // namespace

std::string_view to_string(ScalingMethod method) { return name_in(kMethods, method); }
std::string_view to_string(Kind kind) { return name_in(kKinds, kind); }

ScalingConfig read_scaling(Reader reader, bool numerics) {
  ScalingConfig config;
  config.method = read_choice(reader, "method", kMethods);
  config.samples = static_cast<std::uint32_t>(reader.integer("samples", 1, 1024));
  const bool beams = config.method == ScalingMethod::beam_search, votes = config.method == ScalingMethod::self_consistency;
  for (const char* key : {"width", "step"}) {
    if (!beams && reader.has(key)) reader.fail(key, fmt::format("can not be combined with {}", to_string(config.method)));
  }
  if (votes != reader.has("answer")) {
    reader.fail("answer", votes ? "is missing (expected a regular expression whose first group is the answer)"
                                : fmt::format("can not be combined with {}", to_string(config.method)));
  }
  if (beams) {
    config.width = static_cast<std::uint32_t>(reader.integer("width", 1, config.samples, 1));
    if (config.samples % config.width != 0) {
      reader.fail("width", fmt::format("is not a divisor of {}: {}", reader.name_of("samples"), config.samples));
    }
    read_step(reader.section("step"), config, numerics);
  }
  if (votes) {
    if (!numerics) reader.fail("method", "self_consistency needs text, but engine.function computes none (expected best_of_n)");
    if (reader.has("scorer")) reader.fail("scorer", "can not be combined with self_consistency, where samples vote (remove it)");
    config.answer = TextPattern::read(reader, "answer", reader.text("answer"), false);
    if (config.answer->groups() == 0) reader.fail("answer", "has no group (expected one around the answer, such as \"is (\\d+)\")");
  } else {
    const std::string_view otherwise = to_string(numerics ? Kind::log_probability : Kind::drawn);
    config.scorer = read_scorer(reader.section("scorer", Node::map({{"kind", Node::scalar(std::string(otherwise), {}, true)}})), numerics);
  }
  reader.finish();
  return config;
}

}  // namespace vitro
