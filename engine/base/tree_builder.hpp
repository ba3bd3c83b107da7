// Builds a Node tree from the events of a parser, within bounds: for yaml.cpp and json.cpp.
#pragma once
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro {

// In a map, values come in turn: a key as a plain scalar, then what belongs to it.
class TreeBuilder {
 public:
  static constexpr std::size_t kMaxDepth = 64;
  static constexpr std::size_t kMaxNodes = 1'000'000;

  void open(bool is_map, Origin origin) {
    if (stack_.size() >= kMaxDepth) fail_at(origin, "", fmt::format("nested deeper than {} levels", kMaxDepth));
    if (key_is_due()) fail_at(origin, "", "a key has to be plain text");
    stack_.push_back({is_map, std::move(origin), {}, {}, {}});
  }

  void close() {
    Open top = std::move(stack_.back());
    stack_.pop_back();
    const Origin origin = top.origin;
    place(top.is_map ? Node::map(std::move(top.entries), origin) : Node::list(std::move(top.items), origin), origin);
  }

  void place(Node node, const Origin& origin) {
    if (++count_ > kMaxNodes) fail_at(origin, "", fmt::format("more than {} values", kMaxNodes));
    if (stack_.empty()) {
      root_ = std::move(node);
    } else if (key_is_due()) {
      take_key(std::move(node), origin);
    } else if (stack_.back().is_map) {
      if (node.is_null()) node = Node::null({origin.file, stack_.back().lines.at(*stack_.back().key)});  // parsers see what comes after it
      stack_.back().entries.emplace_back(std::move(*stack_.back().key), std::move(node));
      stack_.back().key.reset();
    } else {
      stack_.back().items.push_back(std::move(node));
    }
  }

  Node take() { return std::move(root_); }

 private:
  struct Open {
    bool is_map;
    Origin origin;
    std::vector<Node> items;
    std::vector<Node::Entry> entries;
    std::optional<std::string> key;
    std::map<std::string, int> lines = {};  // of the keys so far
  };

  bool key_is_due() const { return !stack_.empty() && stack_.back().is_map && !stack_.back().key; }

  void take_key(Node node, const Origin& origin) {
    if (!node.is_scalar()) fail_at(origin, "", "a key has to be plain text");
    const auto [first, is_new] = stack_.back().lines.try_emplace(node.text(), origin.line);
    if (!is_new) fail_at(origin, node.text(), fmt::format("given twice (first on line {})", first->second));
    stack_.back().key = node.text();
  }

  std::vector<Open> stack_;
  std::size_t count_ = 0;
  Node root_;
};

}  // namespace vitro
