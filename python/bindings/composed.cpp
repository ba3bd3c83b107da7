#include "composed.hpp"

#include <map>

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

// Many values come from one file, whose name they share.
class Unpacker {
 public:
  Node node(const Json& tree, const Origin& around = {}) {
    Node made = unmarked(tree, around);
    if (tree.contains("as")) made.set_written_as(tree.at("as").get<std::string>());
    return made;
  }

 private:
  Node unmarked(const Json& tree, const Origin& around) {
    const Origin origin = place(tree.at("at").get_ref<const std::string&>(), around);
    if (tree.contains("text")) return Node::scalar(tree.at("text").get<std::string>(), origin, tree.at("quoted").get<bool>());
    if (tree.contains("items")) {
      std::vector<Node> items;
      for (const auto& [index, item] : tree.at("of").items()) items.push_back(node(item, origin));
      return Node::list(std::move(items), origin);
    }
    if (!tree.contains("of")) return Node::null(origin);
    std::vector<Node::Entry> entries;
    for (const auto& [key, value] : tree.at("of").items()) entries.emplace_back(key, node(value, origin));
    return Node::map(std::move(entries), origin);
  }

  Origin place(const std::string& text, const Origin& around) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) return {};
    if (colon == 0) return {around.file, std::stoi(text.substr(1))};
    std::shared_ptr<const std::string>& file = files_[text.substr(0, colon)];
    if (!file) file = std::make_shared<const std::string>(text.substr(0, colon));
    return {file, std::stoi(text.substr(colon + 1))};
  }

  std::map<std::string, std::shared_ptr<const std::string>> files_;
};

// around: the file of what holds the node.
Json packed(const Node& node, const std::string* around) {
  const std::string* file = node.origin().file.get();
  const bool same = file && around && (file == around || *file == *around);
  Json tree{{"at", same ? ":" + std::to_string(node.origin().line) : node.origin().str()}};
  if (!node.written_as().empty()) tree["as"] = node.written_as();
  if (node.is_scalar()) {
    tree["text"] = node.text();
    tree["quoted"] = node.quoted();
  }
  if (node.is_scalar() || node.is_null()) return tree;
  if (node.is_list()) tree["items"] = node.items().size();
  Json& inner = tree["of"] = Json::object();
  for (const auto& [key, value] : node.entries()) inner[key] = packed(value, file);
  for (std::size_t i = 0; i < node.items().size(); ++i) inner[std::to_string(i)] = packed(node.items()[i], file);
  return tree;
}

}  // namespace

Json packed_tree(const Node& node) { return packed(node, nullptr); }

Node unpacked_tree(const Json& tree) { return Unpacker().node(tree); }

}  // namespace vitro
