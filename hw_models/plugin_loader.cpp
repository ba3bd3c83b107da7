#include "hw_models/plugin_loader.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "engine/base/no_code.hpp"
#include "engine/base/path.hpp"
#include "hw_models/plugin.hpp"

namespace vitro::hw {
namespace {

// The object that holds this code, an extension module say, may have been loaded for its own use alone. A plug-in finds
// our functions only among the global symbols.
void show_our_symbols() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&show_our_symbols), &here) != 0) ::dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

// Built for other versions than ours? What differs, theirs first; empty when nothing does.
std::string mismatch(const PluginInfo& info) {
  if (info.abi != kPluginAbi) return fmt::format("plug-in ABI {}, and this vitro has plug-in ABI {}", info.abi, kPluginAbi);
  if (std::string_view(info.standard_library) != kStandardLibrary) {
    return fmt::format("{}, and this vitro uses {}", info.standard_library, kStandardLibrary);
  }
  if (std::string_view(info.contracts) != VITRO_CONTRACTS) {
    return fmt::format("model contracts {}, and this vitro has {}", info.contracts, VITRO_CONTRACTS);
  }
  if (info.layout != kContractLayout) {
    return fmt::format("contracts of layout {:016x}, and those of this vitro have {:016x}", info.layout, kContractLayout);
  }
  return {};
}

}  // namespace

std::vector<PluginRef> plugins_of(const Node& device, bool environment) {
  std::vector<PluginRef> refs;
  const auto add = [&refs](PluginRef ref) {
    const bool again = std::any_of(refs.begin(), refs.end(), [&ref](const PluginRef& other) { return other.path == ref.path; });
    if (!again) refs.push_back(std::move(ref));
  };
  if (const char* listed = std::getenv("VITRO_PLUGINS"); listed != nullptr && environment) {
    std::istringstream paths{std::string(listed)};
    for (std::string path; std::getline(paths, path, ':');) {
      if (!path.empty()) add({path_named_by(Node::scalar(path)), path, "--plugin or VITRO_PLUGINS"});
    }
  }
  const Node* list = device.find("plugins");
  if (list == nullptr || list->is_null()) return refs;
  if (!list->is_list()) fail_at(list->origin(), "plugins", "is not a list (expected paths of shared objects, such as [./libacme_ufs.so])");
  for (const Node& item : list->items()) {
    if (!item.is_scalar()) fail_at(item.origin(), "plugins", "has an entry that is not a text (expected the path of a shared object)");
    add({path_named_by(item), item.text(), fmt::format("{}: plugins", item.origin().str())});
  }
  return refs;
}

void CloseLibrary::operator()(void* library) const { ::dlclose(library); }

void fail(const PluginRef& ref, const std::string& problem) {
  throw ConfigError(fmt::format("{}: \"{}\" {}", ref.where, ref.named, problem));
}

const void* symbol(const Library& library, const char* name) { return ::dlsym(library.get(), name); }

Library open_library(const PluginRef& ref) {
  refuse_code(ref.where, ref.named);
  if (!std::filesystem::exists(ref.path)) {
    fail(ref, fmt::format("is not a file (looked for {}; paths start at the file that names them)", ref.path));
  }
  show_our_symbols();
  Library library(::dlopen(ref.path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) fail(ref, fmt::format("does not load: {} (expected a shared object built with this vitro's headers)", ::dlerror()));
  return library;
}

Plugin load_plugin(Registry& registry, const PluginRef& ref) {
  Library library = open_library(ref);
  const auto* info = static_cast<const PluginInfo*>(symbol(library, "vitro_plugin"));
  if (info == nullptr && (symbol(library, "vitro_tlm_target") != nullptr || symbol(library, "vitro_tlm_initiator") != nullptr)) {
    fail(ref, "holds SystemC modules (expected its path behind `plugin:` in the block that uses it, see docs/guide/plugins.md)");
  }
  if (info == nullptr) fail(ref, "is a shared object, but not a plug-in (expected one that says VITRO_PLUGIN, see docs/guide/plugins.md)");
  if (const std::string differs = mismatch(*info); !differs.empty()) {
    fail(ref, fmt::format("was built for {} (expected a plug-in compiled with this vitro's headers)", differs));
  }
  library.release();  // never unloaded, see plugin.hpp
  Plugin plugin{info->name, info->description, ref.path, {}};
  const std::vector<Registry::Row> before = registry.list();
  try {
    info->add_models(registry);
  } catch (const std::exception& error) {
    fail(ref, error.what());
  }
  for (Registry::Row& row : registry.list()) {
    const bool known = std::any_of(before.begin(), before.end(), [&row](const Registry::Row& other) { return other.name == row.name; });
    if (!known) plugin.models.push_back(std::move(row));
  }
  return plugin;
}

Registry models_for(const Node& device, const AddModels& more, const AddModels& beside) {
  Registry registry = builtin_models();
  if (beside) beside(registry);
  for (const PluginRef& ref : plugins_of(device)) load_plugin(registry, ref);
  if (more) more(registry);
  return registry;
}

}  // namespace vitro::hw
