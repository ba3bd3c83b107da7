#include "composed.hpp"

#include <map>

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

// Many values come from one file, whose name they share.
class Unpacker {
 public:
  Node node(const Json& tree) {
    Node made = unmarked(tree);
    if (tree.contains("as")) made.set_written_as(tree.at("as").get<std::string>());
    return made;
  }

 private:
  Node unmarked(const Json& tree) {
    const Origin origin = place(tree.at("at").get<std::string>());
    if (tree.contains("text")) return Node::scalar(tree.at("text").get<std::string>(), origin, tree.at("quoted").get<bool>());
    if (tree.contains("items")) {
      std::vector<Node> items;
      for (const auto& [index, item] : tree.at("of").items()) items.push_back(node(item));
      return Node::list(std::move(items), origin);
    }
    if (!tree.contains("of")) return Node::null(origin);
    std::vector<Node::Entry> entries;
    for (const auto& [key, value] : tree.at("of").items()) entries.emplace_back(key, node(value));
    return Node::map(std::move(entries), origin);
  }

  Origin place(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) return {};
    std::shared_ptr<const std::string>& file = files_[text.substr(0, colon)];
    if (!file) file = std::make_shared<const std::string>(text.substr(0, colon));
    return {file, std::stoi(text.substr(colon + 1))};
  }

  std::map<std::string, std::shared_ptr<const std::string>> files_;
};

}  // namespace

Json packed_tree(const Node& node) {
  Json tree{{"at", node.origin().str()}};
  if (!node.written_as().empty()) tree["as"] = node.written_as();
  if (node.is_scalar()) {
    tree["text"] = node.text();
    tree["quoted"] = node.quoted();
  }
  if (node.is_scalar() || node.is_null()) return tree;
  tree["of"] = Json::object();
  if (node.is_list()) tree["items"] = node.items().size();
  for (const auto& [key, value] : node.entries()) tree["of"][key] = packed_tree(value);
  for (std::size_t i = 0; i < node.items().size(); ++i) tree["of"][std::to_string(i)] = packed_tree(node.items()[i]);
  return tree;
}

Node unpacked_tree(const Json& tree) { return Unpacker().node(tree); }

}  // namespace vitro
