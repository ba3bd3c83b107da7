#include "engine/host/fastrpc_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vitro::fastrpc {
namespace {

constexpr std::array<std::pair<std::uint32_t, const char*>, 12> kErrors{{{0x27, "AEE_ENOSUCH"},
                                                                         {0x68, "AEE_ECONNRESET"},
                                                                         {0x80000402, "AEE_ENOMEMORY"},
                                                                         {0x80000404, "AEE_EVERSIONNOTSUPPORT"},
                                                                         {0x80000406, "AEE_EUNABLETOLOAD"},
                                                                         {0x8000040d, "AEE_EBADSTATE"},
                                                                         {0x8000040e, "AEE_EBADPARM"},
                                                                         {0x80000414, "AEE_EUNSUPPORTED"},
                                                                         {0x80000465, "AEE_EMMAP"},
                                                                         {0x80000472, "AEE_ECONNREFUSED"},
                                                                         {0x80000481, "AEE_EUNSIGNEDMOD"},
                                                                         {0x8000048a, "AEE_ENOSESSION"}}};

}  // namespace

std::optional<Api> load(const std::string& library, std::string& why) {
  void* const found = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) {
    why = fmt::format("{} can not be loaded ({})", library, ::dlerror());
    return {};
  }
  Api api;
  const char* lacks = nullptr;
#define VITRO_FASTRPC_FIND(name, ...)                                    \
  api.name = reinterpret_cast<decltype(api.name)>(::dlsym(found, #name)); \
  if (api.name == nullptr && lacks == nullptr) lacks = #name;
  VITRO_FASTRPC_FUNCTIONS(VITRO_FASTRPC_FIND)
#undef VITRO_FASTRPC_FIND
  if (lacks == nullptr) return api;
  why = fmt::format("{} has no {}", library, lacks);
  return {};
}

std::string error_text(int code) {
  const auto bits = static_cast<std::uint32_t>(code);
  const auto known = std::ranges::find(kErrors, bits, &std::pair<std::uint32_t, const char*>::first);
  return known == kErrors.end() ? fmt::format("error {:#x}", bits) : fmt::format("error {:#x} ({})", bits, known->second);
}

}  // namespace vitro::fastrpc
