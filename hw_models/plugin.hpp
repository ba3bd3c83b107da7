// Plug-ins: shared objects that add device models (docs/guide/plugins.md). A plug-in is compiled against these headers, links
// nothing of ours, and says at namespace scope
//
//   void add_models(vitro::hw::Registry& registry) { registry.add(vitro::hw::Entry<vitro::hw::StorageModel>{...}); }
//   VITRO_PLUGIN("acme_ufs", "flash models of ACME parts", add_models)
//
// What it calls of vitro lies in the process that loads it. It is never unloaded: its models, their traces and the errors
// that they throw outlive whatever could own it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <version>

#include "hw_models/registry.hpp"

namespace vitro::hw {

// The version of PluginInfo. That of everything else is VITRO_CONTRACTS, a hash of these headers that vitro_plugin() defines.
inline constexpr std::uint32_t kPluginAbi = 1;

// Whose strings, maps and functions cross the boundary. Compilers that follow the Itanium C++ ABI agree on the rest.
#define VITRO_TEXT_(x) #x
#define VITRO_TEXT(x) VITRO_TEXT_(x)
#ifdef _GLIBCXX_DEBUG
#define VITRO_STDLIB_MODE ", debug mode"
#else
#define VITRO_STDLIB_MODE ""
#endif
#ifdef _LIBCPP_VERSION
inline constexpr const char* kStandardLibrary = "libc++ ABI " VITRO_TEXT(_LIBCPP_ABI_VERSION);
#else
inline constexpr const char* kStandardLibrary = "libstdc++, string ABI " VITRO_TEXT(_GLIBCXX_USE_CXX11_ABI) VITRO_STDLIB_MODE;
#endif

template <class... T>
constexpr std::uint64_t layout_of() {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a over sizes, in order
  for (const std::size_t size : {sizeof(T)...}) hash = (hash ^ size) * 0x100000001b3;
  return hash;
}
// Everything that a plug-in and vitro hand to each other by value or look into: as its compiler lays it out.
inline constexpr std::uint64_t kContractLayout =
    layout_of<Node, Reader, Rng, Label, Callback, ParamSpec, Param, ParamTable, Params, PortSpec, DramRequest, DramTotals, IoRequest,
              StorageLimits, KernelCost, Work, DispatchCosts, Site, Entry<DramModel>, Entry<Initiator>, Registry>();

// `abi` stands first in every version; of a plug-in with another one, nothing else is looked at.
struct PluginInfo {
  std::uint32_t abi;
  const char* standard_library;
  const char* contracts;
  std::uint64_t layout;
  const char* name;
  const char* description;
  void (*add_models)(Registry&);
};

}  // namespace vitro::hw

// Data rather than a function: versions are compared before any code of the plug-in is called.
#define VITRO_PLUGIN(NAME, DESCRIPTION, ADD_MODELS)                                             \
  extern "C" __attribute__((visibility("default"))) const ::vitro::hw::PluginInfo vitro_plugin; \
  const ::vitro::hw::PluginInfo vitro_plugin = {::vitro::hw::kPluginAbi,                        \
                                                ::vitro::hw::kStandardLibrary,                  \
                                                VITRO_CONTRACTS,                                \
                                                ::vitro::hw::kContractLayout,                   \
                                                NAME,                                           \
                                                DESCRIPTION,                                    \
                                                ADD_MODELS};
