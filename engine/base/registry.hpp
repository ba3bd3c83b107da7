// A list of parts by name. Each folder of parts fills one in one explicit function; a plug-in may add to it.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.hpp"

namespace vitro {

// Part: has `name` and `description`. Not thread-safe: parts are added before a run, and read during it.
template <class Part>
class Registry {
 public:
  // Throws ConfigError when the name is taken.
  void add(Part part) {
    if (find(part.name) != nullptr) throw ConfigError("two parts are registered under the name \"" + std::string(part.name) + "\"");
    parts_.push_back(std::move(part));
  }
  // Of a part that was added for one run alone. Nothing, where there is no such name.
  void remove(std::string_view name) {
    std::erase_if(parts_, [name](const Part& part) { return part.name == name; });
  }
  const Part* find(std::string_view name) const {
    const auto found = std::ranges::find_if(parts_, [name](const Part& part) { return part.name == name; });
    return found == parts_.end() ? nullptr : &*found;
  }
  const std::vector<Part>& all() const { return parts_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Part& part : parts_) names.emplace_back(part.name);
    return names;
  }

 private:
  std::vector<Part> parts_;
};

}  // namespace vitro
