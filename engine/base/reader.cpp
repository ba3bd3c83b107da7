#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "engine/base/config.hpp"
#include "engine/base/resolved_tree.hpp"

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

// How many letters may differ for two names to be one with a slip: two, and of a short name less than half.
bool is_near(std::string_view name, std::string_view key) { return edit_distance(name, key) <= std::min<std::size_t>(2, name.size() / 2); }

constexpr double kMostBytes = 0x1p62, kMostSeconds = 4e6;

}  // namespace

Reader::Reader(const Node& node, std::string path) : Reader(node, std::move(path), std::make_shared<ResolvedTree>()) {}

Reader::Reader(const Node& node, std::string path, std::shared_ptr<ResolvedTree> resolved)
    : node_(&node), path_(std::move(path)), resolved_(std::move(resolved)) {
  if (!node.is_map() && !node.is_null()) fail_at(node.origin(), path_, "is not a map of keys (expected `key: value` lines)");
}

bool Reader::has(std::string_view key) {
  known_.emplace(key);
  const Node* value = node_->find(key);
  return value != nullptr && !value->is_null();
}

std::string Reader::name_of(std::string_view key) const {
  const Node* value = node_->find(key);
  if (value != nullptr && !value->written_as().empty()) return value->written_as();
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Node* Reader::take(std::string_view key) { return has(key) ? node_->find(key) : nullptr; }

const Node& Reader::require(std::string_view key) {
  const Node* value = take(key);
  if (value != nullptr) return *value;
  fail(key, "is missing");
}

void Reader::fail(std::string_view key, std::string_view problem) const {
  const Node* value = node_->find(key);
  const bool is_missing = value == nullptr && problem.starts_with("is missing");
  for (const auto& [name, other] : node_->entries()) {  // a misspelt key says more than what the absence of the right one means
    if (!is_missing || name.size() < 4 || known_.contains(name) || !is_near(name, key)) continue;
    fail_at(other.origin(), name_of(name), fmt::format("unknown key (did you mean \"{}\"?)", key));
  }
  fail_at(value != nullptr ? value->origin() : node_->origin(), name_of(key), problem);
}

std::string Reader::scalar_text(std::string_view key, const Node& node, std::string_view expected) const {
  if (!node.is_scalar()) {
    fail_at(node.origin(), name_of(key), fmt::format("is a {} (expected {})", node.is_map() ? "map" : "list", expected));
  }
  return node.text();
}

Node Reader::resolved() const { return resolved_->node(); }

void Reader::rewrite(std::string_view key, Node value) { resolved_->put(key, std::move(value)); }

void Reader::forget(std::string_view key) { resolved_->remove(key); }

std::string Reader::text(std::string_view key) {
  const Node& node = require(key);
  rewrite(key, Node::scalar(scalar_text(key, node, "text"), node.origin(), true));
  return node.text();
}

std::string Reader::text(std::string_view key, std::string_view otherwise) {
  if (take(key) != nullptr) return text(key);
  if (!otherwise.empty()) rewrite(key, Node::scalar(std::string(otherwise), {}, true));
  return std::string(otherwise);
}

std::int64_t Reader::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const Node& node = require(key);
  const std::int64_t value = integer_of(key, node, min, max);
  rewrite(key, node);
  return value;
}

std::vector<std::int64_t> Reader::integers(std::string_view key, std::int64_t min, std::int64_t max) {
  const Node& node = require(key);
  rewrite(key, node);
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
  if (take(key) != nullptr) return integer(key, min, max);
  if (otherwise >= min && otherwise <= max) rewrite(key, Node::scalar(std::to_string(otherwise)));
  return otherwise;
}

double Reader::number(std::string_view key, double min, double max) {
  const Node& node = require(key);
  const std::string expected = fmt::format("a number from {} to {}", min, max);
  const std::string text = scalar_text(key, node, expected);
  double value = 0;
  if (!parse_quantity(text, Dimension::none, value) || value < min || value > max) {
    fail_at(node.origin(), name_of(key), fmt::format("\"{}\" (expected {})", text, expected));
  }
  rewrite(key, node);
  return value;
}

double Reader::number(std::string_view key, double min, double max, double otherwise) {
  if (take(key) != nullptr) return number(key, min, max);
  if (otherwise >= min && otherwise <= max) rewrite(key, Node::scalar(format_quantity(otherwise, Dimension::none)));
  return otherwise;
}

bool Reader::boolean(std::string_view key, bool otherwise) {
  const Node* node = take(key);
  const std::string text = node == nullptr ? (otherwise ? "true" : "false") : scalar_text(key, *node, "true or false");
  const bool on = text == "true" || text == "on" || text == "yes";
  if (!on && text != "false" && text != "off" && text != "no") {
    fail_at(node->origin(), name_of(key), fmt::format("\"{}\" (expected true or false)", text));
  }
  rewrite(key, Node::scalar(on ? "true" : "false", node == nullptr ? Origin() : node->origin()));
  return on;
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
  if (dimension == Dimension::bytes && value > kMostBytes) refuse("is too large");
  if (dimension == Dimension::time && value > kMostSeconds) refuse("is too large");
  rewrite(key, node);
  return value;
}

double Reader::quantity(std::string_view key, Dimension dimension, double otherwise) {
  if (take(key) != nullptr) return quantity(key, dimension);
  rewrite(key, Node::scalar(format_quantity(otherwise, dimension), {}, true));
  return otherwise;
}

double Reader::share(std::string_view key, double otherwise) {
  const double value = quantity(key, Dimension::ratio, otherwise);
  if (value > 1) fail(key, fmt::format("\"{}\" is not a share (expected 0% to 100%)", node_->find(key)->text()));
  return value;
}

Sourced Reader::sourced(std::string_view key, Dimension dimension) {
  const Node& node = require(key);
  if (!node.is_map()) return {quantity(key, dimension), std::nullopt, {}};
  rewrite(key, node);
  Reader inner(node, name_of(key));
  Sourced out;
  out.value = inner.quantity("value", dimension);
  const std::string kind = inner.choice("kind", {"spec", "measured", "derived", "scaled", "fitted", "assumed"});
  out.kind = provenance_by_name(kind);
  out.source = inner.text("source");
  inner.ignore("note");
  inner.finish();
  return out;
}

std::string Reader::choice(std::string_view key, const std::vector<std::string>& choices, std::string_view otherwise) {
  if (take(key) == nullptr && !otherwise.empty()) return text(key, otherwise);
  const std::string expected = fmt::format("one of: {}", fmt::join(choices, ", "));
  const std::string chosen = scalar_text(key, require(key), expected);
  if (std::find(choices.begin(), choices.end(), chosen) == choices.end()) fail(key, fmt::format("\"{}\" (expected {})", chosen, expected));
  return text(key);
}

Reader Reader::child(std::string_view key) {
  const Node& node = require(key);
  return Reader(node, name_of(key), resolved_->child(key, node.origin()));
}

std::optional<Reader> Reader::optional_child(std::string_view key) {
  if (take(key) == nullptr) return std::nullopt;
  return child(key);
}

Reader Reader::section(std::string_view key, Node otherwise) {
  if (take(key) != nullptr) return child(key);
  auto absent = std::make_shared<const Node>(std::move(otherwise));
  Reader reader(*absent, name_of(key), resolved_->child(key, {}));
  reader.owned_ = std::move(absent);
  return reader;
}

std::vector<Reader> Reader::maps(std::string_view key) {
  std::vector<Reader> readers;
  for (const Node& item : list(key)) readers.push_back(Reader(item, name_of(key), resolved_->next_item(key, item.origin())));
  return readers;
}

const std::vector<Node>& Reader::list(std::string_view key) {
  const Node& node = require(key);
  if (!node.is_list()) fail_at(node.origin(), name_of(key), "is not a list (expected [a, b, ...])");
  rewrite(key, node);
  return node.items();
}

const Node* Reader::raw(std::string_view key) {
  const Node* value = take(key);
  if (value != nullptr) rewrite(key, *value);
  return value;
}

void Reader::finish(const std::vector<std::string_view>& also) const {
  std::set<std::string_view> names(known_.begin(), known_.end());
  names.insert(also.begin(), also.end());
  for (const auto& [key, value] : node_->entries()) {
    if (known_.contains(key)) continue;
    std::string_view nearest;
    std::size_t best = 3;
    for (const std::string_view candidate : names) {
      if (!is_near(key, candidate)) continue;
      const std::size_t distance = edit_distance(key, candidate);
      if (distance < best) best = distance, nearest = candidate;
    }
    const std::string hint =
        !nearest.empty() ? fmt::format("did you mean \"{}\"?", nearest) : fmt::format("expected one of: {}", fmt::join(known_, ", "));
    fail_at(value.origin(), name_of(key), fmt::format("unknown key ({})", hint));
  }
}

}  // namespace vitro
