#include "engine/base/resolved_tree.hpp"

#include <algorithm>

namespace vitro {

ResolvedTree::Entry& ResolvedTree::entry(std::string_view key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  return found != entries_.end() ? *found : entries_.emplace_back(Entry{std::string(key), {}, {}, false});
}

void ResolvedTree::put(std::string_view key, Node value) { entry(key) = {std::string(key), std::move(value), {}, false}; }

void ResolvedTree::remove(std::string_view key) {
  std::erase_if(entries_, [key](const Entry& entry) { return entry.key == key; });
}

std::shared_ptr<ResolvedTree> ResolvedTree::child(std::string_view key, const Origin& origin) {
  Entry& found = entry(key);
  if (found.maps.empty() || found.list) {
    found = {std::string(key), Node::null(origin), {std::make_shared<ResolvedTree>()}, false};
    found.maps.front()->origin_ = origin;
  }
  return found.maps.front();
}

std::shared_ptr<ResolvedTree> ResolvedTree::next_item(std::string_view key, const Origin& origin) {
  Entry& found = entry(key);
  if (!found.list) found = {std::string(key), Node::null(origin), {}, true};
  const std::shared_ptr<ResolvedTree>& item = found.maps.emplace_back(std::make_shared<ResolvedTree>());
  item->origin_ = origin;
  return item;
}

Node ResolvedTree::node() const {
  std::vector<Node::Entry> entries;
  for (const Entry& entry : entries_) {
    if (entry.list) {
      std::vector<Node> items;
      for (const auto& item : entry.maps) items.push_back(item->node());
      entries.emplace_back(entry.key, Node::list(std::move(items), entry.value.origin()));
    } else {
      entries.emplace_back(entry.key, entry.maps.empty() ? entry.value : entry.maps.front()->node());
    }
  }
  return Node::map(std::move(entries), origin_);
}

}  // namespace vitro
