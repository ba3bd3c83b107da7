#include "engine/base/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace vitro {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0u);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row.back();
}

constexpr std::pair<std::string_view, Provenance> kProvenances[] = {
    {"spec", Provenance::spec},       {"measured", Provenance::measured}, {"derived", Provenance::derived},
    {"scaled", Provenance::scaled},   {"fitted", Provenance::fitted},     {"assumed", Provenance::assumed}};

constexpr double kMostBytes = 0x1p62, kMostSeconds = 4e6;

}  // namespace

std::string Origin::str() const { return file ? fmt::format("{}:{}", *file, line) : "(default)"; }

Node Node::scalar(std::string text, Origin origin, bool quoted) {
  Node node;
  node.kind_ = Kind::scalar;
  node.text_ = std::move(text);
  node.quoted_ = quoted;
  node.origin_ = std::move(origin);
  return node;
}

Node Node::null(Origin origin) {
  Node node;
  node.origin_ = std::move(origin);
  return node;
}

Node Node::list(std::vector<Node> items, Origin origin) {
  Node node;
  node.kind_ = Kind::list;
  node.items_ = std::move(items);
  node.origin_ = std::move(origin);
  return node;
}

Node Node::map(std::vector<Entry> entries, Origin origin) {
  Node node;
  node.kind_ = Kind::map;
  node.entries_ = std::move(entries);
  node.origin_ = std::move(origin);
  return node;
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : entries_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Node::set(std::string_view key, Node value) {
  if (kind_ == Kind::null) kind_ = Kind::map;
  VITRO_CHECK(kind_ == Kind::map, "set() needs a map");
  for (auto& [name, old] : entries_) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  entries_.emplace_back(std::string(key), std::move(value));
}

void Node::set_path(std::string_view dotted, Node value) {
  const std::size_t dot = dotted.find('.');
  if (dot == std::string_view::npos) return set(dotted, std::move(value));
  const std::string_view head = dotted.substr(0, dot);
  const Node* child = find(head);
  Node inner = child != nullptr && child->is_map() ? *child : Node::map({}, value.origin());
  inner.set_path(dotted.substr(dot + 1), std::move(value));
  set(head, std::move(inner));
}

const Node* Node::find_path(std::string_view dotted) const {
  const std::size_t dot = dotted.find('.');
  const Node* child = find(dotted.substr(0, dot));
  return child == nullptr || dot == std::string_view::npos ? child : child->find_path(dotted.substr(dot + 1));
}

void fail_at(const Origin& origin, std::string_view key, std::string_view problem) {
  throw ConfigError(key.empty() ? fmt::format("{}: {}", origin.str(), problem) : fmt::format("{}: {}: {}", origin.str(), key, problem));
}

std::string_view to_string(Provenance kind) {
  for (const auto& [name, value] : kProvenances) {
    if (value == kind) return name;
  }
  return "assumed";
}

Reader::Reader(const Node& node, std::string path) : node_(&node), path_(std::move(path)) {
  if (!node.is_map() && !node.is_null()) fail_at(node.origin(), path_, "is not a map of keys (expected `key: value` lines)");
}

bool Reader::has(std::string_view key) {
  known_.emplace(key);
  const Node* value = node_->find(key);
  return value != nullptr && !value->is_null();
}

std::string Reader::name_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Node* Reader::take(std::string_view key) {
  return has(key) ? node_->find(key) : nullptr;
}

const Node& Reader::require(std::string_view key) {
  const Node* value = take(key);
  if (value != nullptr) return *value;
  for (const auto& [name, other] : node_->entries()) {  // a misspelt key is the likelier mistake, and the message of the two that helps
    if (name.size() > 4 && !known_.contains(name) && edit_distance(name, key) < 3) {
      fail_at(other.origin(), name_of(key), fmt::format("is missing (there is \"{}\")", name));
    }
  }
  fail_at(node_->origin(), name_of(key), "is missing");
}

void Reader::fail(std::string_view key, std::string_view problem) const {
  const Node* value = node_->find(key);
  fail_at(value != nullptr ? value->origin() : node_->origin(), name_of(key), problem);
}

std::string Reader::scalar_text(std::string_view key, const Node& node, std::string_view expected) const {
  if (!node.is_scalar()) {
    fail_at(node.origin(), name_of(key), fmt::format("is a {} (expected {})", node.is_map() ? "map" : "list", expected));
  }
  return node.text();
}

std::string Reader::text(std::string_view key) { return scalar_text(key, require(key), "text"); }

std::string Reader::text(std::string_view key, std::string_view otherwise) {
  const Node* value = take(key);
  return value == nullptr ? std::string(otherwise) : scalar_text(key, *value, "text");
}

std::int64_t Reader::integer(std::string_view key, std::int64_t min, std::int64_t max) { return integer_of(key, require(key), min, max); }

std::vector<std::int64_t> Reader::integers(std::string_view key, std::int64_t min, std::int64_t max) {
  const Node& node = require(key);
  if (!node.is_list()) return {integer_of(key, node, min, max)};
  std::vector<std::int64_t> values;
  for (const Node& item : node.items()) values.push_back(integer_of(key, item, min, max));
  return values;
}

std::int64_t Reader::integer_of(std::string_view key, const Node& node, std::int64_t min, std::int64_t max) const {
  const std::string expected = fmt::format("a whole number from {} to {}", min, max);
  const std::string text = scalar_text(key, node, expected);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    fail_at(node.origin(), name_of(key), fmt::format("\"{}\" (expected {})", text, expected));
  }
  return value;
}

std::int64_t Reader::integer(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t otherwise) {
  if (take(key) == nullptr) return otherwise;
  return integer(key, min, max);
}

double Reader::number(std::string_view key, double min, double max) {
  const Node& node = require(key);
  const std::string expected = fmt::format("a number from {} to {}", min, max);
  const std::string text = scalar_text(key, node, expected);
  double value = 0;
  if (!parse_quantity(text, Dimension::none, value) || value < min || value > max) {
    fail_at(node.origin(), name_of(key), fmt::format("\"{}\" (expected {})", text, expected));
  }
  return value;
}

double Reader::number(std::string_view key, double min, double max, double otherwise) {
  if (take(key) == nullptr) return otherwise;
  return number(key, min, max);
}

bool Reader::boolean(std::string_view key, bool otherwise) {
  const Node* node = take(key);
  if (node == nullptr) return otherwise;
  const std::string text = scalar_text(key, *node, "true or false");
  if (text == "true" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "off" || text == "no") return false;
  fail_at(node->origin(), name_of(key), fmt::format("\"{}\" (expected true or false)", text));
}

double Reader::quantity(std::string_view key, Dimension dimension) {
  const Node& node = require(key);
  const std::string text = scalar_text(key, node, describe(dimension));
  const auto refuse = [&](std::string_view problem) {
    fail_at(node.origin(), name_of(key), fmt::format("\"{}\" {} (expected {})", text, problem, describe(dimension)));
  };
  double value = 0, bare = 0;
  if (!parse_quantity(text, dimension, value)) {
    refuse(dimension != Dimension::none && parse_quantity(text, Dimension::none, bare) ? "has no unit" : "is not understood");
  }
  if (value < 0 && dimension != Dimension::none && dimension != Dimension::temperature) refuse("is negative");
  // Both become 64-bit integers, of bytes and of picoseconds.
  if (dimension == Dimension::bytes && value > kMostBytes) refuse("is too much");
  if (dimension == Dimension::time && value > kMostSeconds) refuse("is too much");
  return value;
}

double Reader::quantity(std::string_view key, Dimension dimension, double otherwise) {
  if (take(key) == nullptr) return otherwise;
  return quantity(key, dimension);
}

double Reader::share(std::string_view key, double otherwise) {
  const Node* node = take(key);
  if (node == nullptr) return otherwise;
  const double value = quantity(key, Dimension::ratio);
  if (value > 1) fail_at(node->origin(), name_of(key), fmt::format("\"{}\" is not a share (expected 0% to 100%)", node->text()));
  return value;
}

Sourced Reader::sourced(std::string_view key, Dimension dimension) {
  const Node& node = require(key);
  if (!node.is_map()) return {quantity(key, dimension), std::nullopt, {}};
  Reader inner(node, name_of(key));
  Sourced out;
  out.value = inner.quantity("value", dimension);
  const std::string kind = inner.choice("kind", {"spec", "measured", "derived", "scaled", "fitted", "assumed"});
  for (const auto& [name, value] : kProvenances) {
    if (name == kind) out.kind = value;
  }
  out.source = inner.text("source");
  inner.ignore("note");
  inner.finish();
  return out;
}

std::string Reader::choice(std::string_view key, const std::vector<std::string>& choices, std::string_view otherwise) {
  const Node* node = take(key);
  if (node == nullptr && !otherwise.empty()) return std::string(otherwise);
  const std::string expected = fmt::format("one of: {}", fmt::join(choices, ", "));
  const std::string text = scalar_text(key, require(key), expected);
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) fail(key, fmt::format("\"{}\" (expected {})", text, expected));
  return text;
}

Reader Reader::child(std::string_view key) { return Reader(require(key), name_of(key)); }

std::optional<Reader> Reader::optional_child(std::string_view key) {
  const Node* value = take(key);
  if (value == nullptr) return std::nullopt;
  return Reader(*value, name_of(key));
}

const std::vector<Node>& Reader::list(std::string_view key) {
  const Node& node = require(key);
  if (!node.is_list()) fail_at(node.origin(), name_of(key), "is not a list (expected [a, b, ...])");
  return node.items();
}

const Node* Reader::raw(std::string_view key) { return take(key); }

void Reader::finish() const {
  for (const auto& [key, value] : node_->entries()) {
    if (known_.contains(key)) continue;
    const std::string* nearest = nullptr;
    std::size_t best = 3;
    for (const std::string& candidate : known_) {
      const std::size_t distance = edit_distance(key, candidate);
      if (distance < best) best = distance, nearest = &candidate;
    }
    const std::string hint = nearest != nullptr ? fmt::format("did you mean \"{}\"?", *nearest)
                                                : fmt::format("expected one of: {}", fmt::join(known_, ", "));
    fail_at(value.origin(), name_of(key), fmt::format("unknown key ({})", hint));
  }
}

}  // namespace vitro
