// Composed experiments on their way through Python: one process puts them together, another one runs them.
#pragma once
#include <string>
#include <string_view>

#include "engine/base/config.hpp"

namespace vitro {

// As JSON: {"at": "exp.yaml:3", "of": {key or index: such a tree}} for a map or a list, {"at", "text", "quoted"} for a scalar, {"at"} for
// null; ":3" in place of "exp.yaml:3": of the file that the map or list around it is from.
// "as": how its key was written, where that is not what it is called now.
std::string packed_tree(const Node& node);

// The same node again, with its places. Requires: the text of a tree made by packed_tree().
Node unpacked_tree(std::string_view text);

}  // namespace vitro
