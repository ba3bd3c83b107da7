// Storage blocks for tests: the presets, with changes.
#pragma once
#include <string>

#include "engine/base/config.hpp"

namespace vitro::hw {

// configs/storage/<name>.yaml at `fidelity`, with `changes` as the inside of a YAML map: "map_fetches: 1, queues: 2".
Node preset(const std::string& name, const std::string& fidelity, const std::string& changes = "");

}  // namespace vitro::hw
