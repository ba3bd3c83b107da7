// What devices and plug-ins say of themselves, as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/config.hpp"
#include "hw_models/plugin_loader.hpp"

namespace vitro {

// One row per device file of a folder, by name. A file that can not be read says so in its row instead of hiding the others.
nlohmann::ordered_json list_devices(const std::string& folder);

// One row per plug-in of VITRO_PLUGINS and of the device files in `folder`, with what each adds; one that can not be
// loaded says why.
nlohmann::ordered_json list_plugins(const std::string& folder);

// One row per parameter of a device, in the order of its blocks: name, value in SI units (or its word), unit, kind, source.
nlohmann::ordered_json describe_parameters(const Node& device, const hw::AddModels& add_models);

}  // namespace vitro
