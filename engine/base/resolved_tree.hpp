// What was read of a configuration, written out: every value as it was given, and the default of every key that was not.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro {

// One map of the tree, in the order in which its keys were read.
class ResolvedTree {
 public:
  void put(std::string_view key, Node value);  // adds or replaces
  void remove(std::string_view key);
  // A map below `key`, the same one each time; and a new map at the end of the list below `key`.
  std::shared_ptr<ResolvedTree> child(std::string_view key, const Origin& origin);
  std::shared_ptr<ResolvedTree> next_item(std::string_view key, const Origin& origin);
  Node node() const;

 private:
  struct Entry {
    std::string key;
    Node value;  // of a leaf; of others only its origin counts
    std::vector<std::shared_ptr<ResolvedTree>> maps;
    bool list = false;
  };
  Entry& entry(std::string_view key);

  std::vector<Entry> entries_;
  Origin origin_;
};

}  // namespace vitro
