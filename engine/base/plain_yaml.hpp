// The part of YAML that tables are written in, read in a tenth of the time that yaml-cpp takes.
#pragma once
#include <optional>
#include <string_view>

#include "engine/base/config.hpp"

namespace vitro {

// Maps by indentation and in braces on one line, numbers and words, texts in double quotes without a backslash, comments. As parse_yaml()
// reads it, with the same lines; nothing for a text that has anything else in it, or a fault.
std::optional<Node> parse_plain_yaml(std::string_view text, std::string_view name);

// By yaml-cpp, whatever the text.
Node parse_any_yaml(std::string_view text, std::string_view name);

}  // namespace vitro
