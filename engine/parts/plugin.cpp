#include "engine/parts/plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "engine/base/file.hpp"
#include "engine/base/no_code.hpp"

namespace vitro {
namespace {

// The object that holds this code, an extension module say, may have been loaded for its own use alone. A plug-in finds our functions
// only among the global symbols.
void show_our_symbols() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&show_our_symbols), &here) != 0) ::dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace

void load_parts(const std::string& path, const std::string& where) {
  refuse_code(where, path);
  static std::set<std::string> loaded;  // by the policy thread alone, before a run
  const std::string file = canonical_path(path);
  if (loaded.contains(file)) return;
  const auto fail = [&](const std::string& problem) { throw ConfigError(fmt::format("{}: \"{}\" {}", where, path, problem)); };
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) fail("is not a file (paths start at the file that names them)");
  show_our_symbols();
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(fmt::format("does not load: {} (expected a shared object built with this engine's headers)", ::dlerror()));
  const auto* abi = static_cast<const int*>(::dlsym(library, "vitro_parts_abi"));
  using Register = void (*)(PartRegistries&);
  const auto add = reinterpret_cast<Register>(::dlsym(library, "vitro_register_parts"));
  if (abi == nullptr || add == nullptr) fail("is not a plug-in with parts of an engine (expected a shared object that uses VITRO_PARTS)");
  if (*abi != kPartsAbi)
    fail(fmt::format("was built for version {} of the part interface (expected {}: compile it with these headers)", *abi, kPartsAbi));
  PartRegistries registries{weights_kinds(), ffn_kinds(), placement_kinds(), evictions(), kv_keep_rules(), drift_rules(),
                             look_ahead_rules(), place_rules()};
  add(registries);
  loaded.insert(file);  // never unloaded: the registries point into it
}

}  // namespace vitro
