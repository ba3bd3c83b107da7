#include "hw_models/params.hpp"

#include <fmt/format.h>

#include <sstream>

namespace vitro::hw {
namespace {

Origin origin_of(const Reader& reader, std::string_view key) {
  const Node* value = reader.node().find(key);
  return (value != nullptr ? *value : reader.node()).origin();
}

Param read_word(Reader& reader, const ParamSpec& spec) {
  std::vector<std::string> choices;
  std::istringstream words{std::string(spec.choices)};
  for (std::string word; std::getline(words, word, '|');) choices.push_back(word);
  return {reader.name_of(spec.key),
          0,
          Dimension::none,
          Provenance::spec,
          reader.has(spec.key) ? std::string(spec.source) : fmt::format("default: {}", spec.source),
          false,
          reader.choice(spec.key, choices, spec.fallback),
          origin_of(reader, spec.key)};
}

Param read_param(Reader& reader, const ParamSpec& spec) {
  if (!spec.choices.empty()) return read_word(reader, spec);
  Param param{reader.name_of(spec.key), 0, spec.dimension, Provenance::assumed, {}, false, {}, origin_of(reader, spec.key)};
  if (!spec.fallback.empty() && !reader.has(spec.key)) {
    reader.ignore(spec.key);
    VITRO_CHECK(parse_quantity(spec.fallback, spec.dimension, param.value), fmt::format("the default of {} does not parse", param.name));
    param.source = fmt::format("default: {}", spec.source);
    return param;
  }
  const Sourced sourced = reader.sourced(spec.key, spec.dimension);
  if (sourced.value < 0) reader.fail(spec.key, fmt::format("is negative (expected {})", describe(spec.dimension)));
  const bool divides = spec.dimension == Dimension::bandwidth || spec.dimension == Dimension::frequency;
  if (divides && sourced.value == 0) reader.fail(spec.key, fmt::format("is 0 (expected {})", describe(spec.dimension)));
  param.value = sourced.value;
  param.kind = sourced.kind.value_or(Provenance::assumed);
  param.source = sourced.kind ? sourced.source : "the device file names no source";
  return param;
}

void flatten(Reader& reader, const std::string& prefix, ParamTable& table) {
  for (const auto& [key, value] : reader.node().entries()) {
    if (prefix.empty() && (key == "kind" || key == "source" || key == "note")) continue;
    const std::string name = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    if (value.is_map()) {
      Reader inner = reader.child(key);
      flatten(inner, name, table);
    } else {
      table.values[name] = reader.number(key, 0, 1e18);
      table.origins[name] = value.origin();
    }
  }
}

}  // namespace

void ParamTable::fail(std::string_view key, std::string_view problem) const {
  const auto found = origins.find(key);
  fail_at(found != origins.end() ? found->second : origin, key.empty() ? name : fmt::format("{}.{}", name, key), problem);
}

Params::Params(Reader& reader, std::span<const ParamSpec> specs) : path_(reader.path()) {
  for (const ParamSpec& spec : specs) {
    index_.emplace(spec.key, params_.size());
    params_.push_back(read_param(reader, spec));
  }
}

void Params::add_table(Reader& reader, std::string_view key, bool required) {
  if (!required && !reader.has(key)) {
    reader.ignore(key);
    return;
  }
  Reader inner = reader.child(key);
  ParamTable table;
  table.name = reader.name_of(key);
  table.origin = origin_of(reader, key);
  table.source = inner.text("source", "the device file names no source");
  const std::string kind = inner.choice("kind", {"spec", "measured", "derived", "scaled", "fitted", "assumed"}, "assumed");
  for (const Provenance p : {Provenance::spec, Provenance::measured, Provenance::derived, Provenance::scaled, Provenance::fitted}) {
    if (kind == to_string(p)) table.kind = p;
  }
  inner.ignore("note");
  flatten(inner, "", table);
  tables_.emplace(key, std::move(table));
}

double Params::positive(std::string_view key) const {
  const double value = number(key);
  if (value == 0) fail(key, "is 0 (expected more)");
  return value;
}

const ParamTable& Params::table(std::string_view key) const {
  static const ParamTable kNone;
  const auto found = tables_.find(key);
  if (found == tables_.end()) return kNone;
  found->second.read = true;
  return found->second;
}

void Params::fail(std::string_view key, std::string_view problem) const {
  const Param& param = find(key);
  fail_at(param.origin, param.name, problem);
}

const Param& Params::find(std::string_view key) const {
  const auto found = index_.find(key);
  VITRO_CHECK(found != index_.end(), fmt::format("{}: no parameter \"{}\" in the model's table", path_, key));
  const Param& param = params_[found->second];
  param.read = true;
  return param;
}

const std::string& Params::word(std::string_view key) const {
  const Param& param = find(key);
  VITRO_CHECK(!param.word.empty(), fmt::format("{} has no choices in its table", param.name));
  return param.word;
}

double Params::get(std::string_view key, Dimension dimension) const {
  const Param& param = find(key);
  VITRO_CHECK(param.dimension == dimension, fmt::format("{} was read with another dimension than its table says", param.name));
  return param.value;
}

std::vector<std::string> Params::assumed_and_read() const {
  std::vector<std::string> names;
  for (const Param& param : params_) {
    if (param.read && param.kind == Provenance::assumed) names.push_back(param.name);
  }
  for (const auto& [key, table] : tables_) {
    if (table.read && table.kind == Provenance::assumed) names.push_back(table.name);
  }
  return names;
}

}  // namespace vitro::hw
