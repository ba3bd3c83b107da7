// A configuration tree as a value of the JSON library.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/base/config.hpp"

namespace vitro {

// As Node::to_json() writes it: unquoted numbers, booleans and null stay what they are. Keys of a map are unique, as readers see to.
nlohmann::ordered_json to_json_value(const Node& node);

// Appends `text` as a string of JSON, in quotes. What is no UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace vitro
