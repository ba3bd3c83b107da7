// Paths in configuration files start at the file that names them, or are `vitro:` and a name of what comes with vitro.
#pragma once
#include <string>
#include <string_view>

#include "engine/base/config.hpp"

namespace vitro {

// The folder that holds configs/ and experiments/ of this vitro. Set once, before anything is read; unset: nothing comes with it.
void set_data_folder(std::string folder);

// "vitro:devices/oneplus12" -> the path of configs/devices/oneplus12.yaml in the data folder, "vitro:experiments/quickstart" -> that of
// experiments/quickstart.yaml; any other text unchanged. A name without an ending is that of a YAML file. Throws ConfigError at `origin`
// where no such file comes with vitro. name: the key that has the text.
std::string shipped_path(const std::string& text, const Origin& origin, std::string_view name);

// The absolute path that a scalar of a document names. A relative one starts at the folder of its document; in a document
// that is no file (an override, a dict) at the working directory.
std::string path_named_by(const Node& value);

// A copy of nested maps in which each text behind `key` is the absolute path that it names.
Node with_absolute_paths(const Node& tree, std::string_view key);

}  // namespace vitro
