// For static builds, which load no libraries.
#include <fmt/format.h>

#include "engine/host/fastrpc_api.hpp"

namespace vitro::fastrpc {

std::optional<Api> load(const std::string& library, std::string& why) {
  why = fmt::format("{} can not be loaded: this build is static (expected one by the phone's own toolchain)", library);
  return {};
}

std::string error_text(int code) { return fmt::format("error {:#x}", static_cast<unsigned>(code)); }

}  // namespace vitro::fastrpc
