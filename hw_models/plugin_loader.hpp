// Loads plug-ins (plugin.hpp) and makes the registry of one simulation.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

struct PluginRef {
  std::string path;   // absolute
  std::string named;  // as it was written
  std::string where;  // for messages: "phone.yaml:3: plugins"
};
// Of the environment variable VITRO_PLUGINS (paths separated by ':'), then of the `plugins:` list of a device, in order;
// each file once. Throws ConfigError when that list is none, or has something else than paths.
std::vector<PluginRef> plugins_of(const Node& device, bool environment = true);

struct CloseLibrary {
  void operator()(void* library) const;
};
using Library = std::unique_ptr<void, CloseLibrary>;
// Throws ConfigError: no such file, no shared object, or one that calls what this process does not have.
Library open_library(const PluginRef& ref);
const void* symbol(const Library& library, const char* name);  // null when it has none of the name
[[noreturn]] void fail(const PluginRef& ref, const std::string& problem);

struct Plugin {
  std::string name, description, path;
  std::vector<Registry::Row> models;  // what it added
};
// Throws ConfigError: no such file, no shared object, no plug-in, one built for another version (the message has both), a
// model whose name is taken. Only when all is well is code of the plug-in called.
Plugin load_plugin(Registry& registry, const PluginRef& ref);

// What is compiled in, what the plug-ins of `device` add, and what `more` adds. `beside`: adds what is compiled in beside this library.
using AddModels = std::function<void(Registry&)>;
Registry models_for(const Node& device, const AddModels& more = nullptr, const AddModels& beside = nullptr);

}  // namespace vitro::hw
