// Code that an experiment brings: shared objects behind `plugins:` and `plugin:`. With VITRO_NO_CODE (the option --no-code) it is refused
// before any of it is loaded, so that what a stranger wrote is data alone (docs/guide/strangers.md).
#pragma once
#include <string>

#include "engine/base/config.hpp"

namespace vitro {

// Whether the environment variable VITRO_NO_CODE is there and neither empty nor 0.
bool code_refused();

// Throws ConfigError if code is refused. where: "file:line: key" or the option that named the code. named: as it was written.
void refuse_code(const std::string& where, const std::string& named);

// The same for whatever `plugins:` and `plugin:` of a composed experiment name, at any depth, and for the environment's VITRO_PLUGINS.
void refuse_code_in(const Node& experiment);

}  // namespace vitro
