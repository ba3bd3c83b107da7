// Builds a Node tree from the events of a parser, within bounds: for yaml.cpp and json.cpp.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro {

// In a map, values come in turn: a key as a plain scalar, then what belongs to it. `merges`: the plain key << stands for the entries of a
// map, or of a list of maps, that the map at hand does not have itself; of several maps the first that has a key counts.
class TreeBuilder {
 public:
  static constexpr std::size_t kMaxDepth = 64;
  static constexpr std::size_t kMaxNodes = 1'000'000;
  static constexpr std::size_t kMaxCopies = 100'000;        // of these nodes
  static constexpr std::size_t kMaxCopiedBytes = 64 << 20;  // of their texts

  explicit TreeBuilder(bool merges = false) : merges_(merges) {}

  void open(bool is_map, Origin origin) {
    if (stack_.size() >= kMaxDepth) fail_at(origin, "", fmt::format("nested deeper than {} levels", kMaxDepth));
    if (key_is_due()) fail_at(origin, "", "a key has to be plain text");
    stack_.push_back({is_map, std::move(origin), {}, {}, {}});
  }

  // -> the list or map that was closed, until the next call.
  const Node& close() {
    Open top = std::move(stack_.back());
    stack_.pop_back();
    Origin origin = top.origin;  // parsers see a map below its key: in the line of its first entry
    if (!stack_.empty() && stack_.back().key) origin.line = stack_.back().lines.at(*stack_.back().key);
    if (top.merged) top.entries = with_merged(std::move(top.entries), *top.merged, {origin.file, top.lines.at("<<")});
    return place(top.is_map ? Node::map(std::move(top.entries), origin) : Node::list(std::move(top.items), origin), origin);
  }

  // -> where it is, until the next call; of a key nothing of use.
  const Node& place(Node node, const Origin& origin) {
    if (++count_ > kMaxNodes) fail_at(origin, "", fmt::format("more than {} values", kMaxNodes));
    if (stack_.empty()) return root_ = std::move(node);
    Open& top = stack_.back();
    if (key_is_due()) {
      take_key(std::move(node), origin);
      return root_;
    }
    if (!top.is_map) return top.items.emplace_back(std::move(node));
    const std::string key = std::move(*top.key);
    top.key.reset();
    if (std::exchange(top.merges_now, false)) return top.merged.emplace(std::move(node));
    if (node.is_null()) node = Node::null({origin.file, top.lines.at(key)});  // parsers see what comes after it
    return top.entries.emplace_back(key, std::move(node)).second;
  }
  // A copy of something that was placed before: it counts with all that is in it.
  void place_copy(const Node& node, const Origin& origin) {
    const std::size_t depth = stack_.size() + measure(node).depth;
    if (depth > kMaxDepth) fail_at(origin, "", fmt::format("nested deeper than {} levels", kMaxDepth));
    count_copy(node, origin);
    place(node, origin);
  }
  // Somebody keeps a copy: it counts as well.
  void count_copy(const Node& node, const Origin& origin) {
    const Size size = measure(node);
    copies_ += size.nodes;
    copied_bytes_ += size.bytes;
    if (copies_ > kMaxCopies) fail_at(origin, "", fmt::format("more than {} values by anchors and aliases (&name, *name)", kMaxCopies));
    if (copied_bytes_ > kMaxCopiedBytes) {
      fail_at(origin, "", fmt::format("more than {} MiB of texts by anchors and aliases (&name, *name)", kMaxCopiedBytes >> 20));
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
    bool merges_now = false;                // the key is <<
    std::optional<Node> merged = {};        // what it stands for
  };
  struct Size {
    std::size_t nodes = 1, depth = 0, bytes = 0;  // bytes: of texts and keys
  };

  static Size measure(const Node& node) {
    Size size;
    if (node.is_scalar()) size.bytes = node.text().size();
    const auto add = [&size](const Node& inner) {
      const Size its = measure(inner);
      size.nodes += its.nodes;
      size.bytes += its.bytes;
      size.depth = std::max(size.depth, its.depth + 1);
    };
    for (const Node& item : node.items()) add(item);
    for (const auto& [key, value] : node.entries()) {
      size.bytes += key.size();
      add(value);
    }
    return size;
  }

  // Merged entries stand before the map's own, and one that the map has itself stands where it was merged.
  std::vector<Node::Entry> with_merged(std::vector<Node::Entry> own, const Node& merged, const Origin& origin) {
    std::vector<Node::Entry> out;
    std::map<std::string, std::size_t> at;
    const auto set = [&](const std::string& key, Node value) {
      const auto [entry, is_new] = at.try_emplace(key, out.size());
      if (is_new) return static_cast<void>(out.emplace_back(key, std::move(value)));
      out[entry->second].second = std::move(value);
    };
    const auto add = [&](const Node& map) {
      if (!map.is_map()) fail_at(origin, "<<", "is not a map of keys (expected *name of a map, or a list of such)");
      for (const auto& [key, value] : map.entries()) set(key, value);
    };
    if (merged.is_list()) {
      for (std::size_t i = merged.items().size(); i-- > 0;) add(merged.items()[i]);
    } else {
      add(merged);
    }
    for (auto& [key, value] : own) set(key, std::move(value));
    return out;
  }

  bool key_is_due() const { return !stack_.empty() && stack_.back().is_map && !stack_.back().key; }

  void take_key(Node node, const Origin& origin) {
    if (!node.is_scalar()) fail_at(origin, "", "a key has to be plain text");
    const auto [first, is_new] = stack_.back().lines.try_emplace(node.text(), origin.line);
    if (!is_new) fail_at(origin, node.text(), fmt::format("given twice (first on line {})", first->second));
    stack_.back().merges_now = merges_ && node.text() == "<<" && !node.quoted();
    stack_.back().key = node.text();
  }

  bool merges_;
  std::vector<Open> stack_;
  std::size_t count_ = 0, copies_ = 0, copied_bytes_ = 0;
  Node root_;
};

}  // namespace vitro
