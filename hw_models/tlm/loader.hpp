// Loads shared objects with SystemC modules (plugin.hpp) and makes them device models: `tlm.detailed`, a DRAM, and
// `tlm_initiator.detailed`, an agent that loads the DRAM. The block that uses one names its file by `plugin:`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hw_models/plugin_loader.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

void register_tlm(Registry& registry);

// What a shared object has of both, for lists.
struct TlmModules {
  std::string name, description;  // of the target, where it has one
  std::vector<std::string> models;  // as `model:` of a block says: "tlm", "tlm_initiator"
  std::vector<std::string> keys;    // that they read
};
// Empty: it has neither. Throws ConfigError as the models do: no such file, another version.
std::optional<TlmModules> tlm_modules(const PluginRef& ref);

}  // namespace vitro::hw
