#include "engine/base/config.hpp"

#include <fmt/format.h>

#include <array>

namespace vitro {
namespace {

constexpr std::pair<std::string_view, Provenance> kProvenances[] = {{"spec", Provenance::spec},       {"measured", Provenance::measured},
                                                                    {"derived", Provenance::derived}, {"scaled", Provenance::scaled},
                                                                    {"fitted", Provenance::fitted},   {"assumed", Provenance::assumed}};

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
  if (!items.empty()) node.items_ = std::make_shared<std::vector<Node>>(std::move(items));
  node.origin_ = std::move(origin);
  return node;
}

Node Node::map(std::vector<Entry> entries, Origin origin) {
  Node node;
  node.kind_ = Kind::map;
  if (!entries.empty()) node.entries_ = std::make_shared<std::vector<Entry>>(std::move(entries));
  node.origin_ = std::move(origin);
  return node;
}

const std::vector<Node>& Node::items() const& {
  static const std::vector<Node> none;
  return items_ ? *items_ : none;
}

const std::vector<Node::Entry>& Node::entries() const& {
  static const std::vector<Entry> none;
  return entries_ ? *entries_ : none;
}

std::vector<Node::Entry>& Node::own_entries() {
  if (!entries_) {
    entries_ = std::make_shared<std::vector<Entry>>();
  } else if (entries_.use_count() > 1) {
    entries_ = std::make_shared<std::vector<Entry>>(*entries_);
  }
  return *entries_;
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : entries()) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Node::set(std::string_view key, Node value) {
  if (kind_ == Kind::null) kind_ = Kind::map;
  VITRO_CHECK(kind_ == Kind::map, "set() needs a map");
  std::vector<Entry>& entries = own_entries();
  for (auto& [name, old] : entries) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  entries.emplace_back(std::string(key), std::move(value));
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

std::optional<Provenance> provenance_by_name(std::string_view name) {
  for (const auto& [known, value] : kProvenances) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace vitro
