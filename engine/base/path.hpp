// Paths in configuration files start at the file that names them.
#pragma once
#include <string>

#include "engine/base/config.hpp"

namespace vitro {

// The absolute path that a scalar of a document names. A relative one starts at the folder of its document; in a document
// that is no file (an override, a dict) at the working directory.
std::string path_named_by(const Node& value);

}  // namespace vitro
