// A configuration tree as a value of the JSON library.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/base/config.hpp"

namespace vitro {

// As Node::to_json() writes it: unquoted numbers, booleans and null stay what they are. Keys of a map are unique, as readers see to.
nlohmann::ordered_json to_json_value(const Node& node);

}  // namespace vitro
