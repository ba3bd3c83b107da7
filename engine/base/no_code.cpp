#include "engine/base/no_code.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace vitro {
namespace {

void look_through(const Node& node, const std::string& at) {
  for (const auto& [key, value] : node.entries()) {
    const std::string name = at.empty() ? key : at + "." + key;
    if ((key == "plugins" || key == "plugin") && !value.is_null()) {
      const Node& first = value.items().empty() ? value : value.items().front();
      if (value.is_list() && value.items().empty()) continue;
      refuse_code(fmt::format("{}: {}", first.origin().str(), name), first.is_scalar() ? first.text() : first.to_json());
    }
    look_through(value, name);
  }
  for (const Node& item : node.items()) look_through(item, at);
}

}  // namespace

bool code_refused() {
  const char* const said = std::getenv("VITRO_NO_CODE");
  return said != nullptr && std::string_view(said) != "" && std::string_view(said) != "0";
}

void refuse_code(const std::string& where, const std::string& named) {
  if (!code_refused()) return;
  throw ConfigError(fmt::format("{}: \"{}\" is code, which --no-code (VITRO_NO_CODE) refuses (expected an experiment that brings none)",
                                where, named));
}

void refuse_code_in(const Node& experiment) {
  if (!code_refused()) return;
  look_through(experiment, "");
  const char* const listed = std::getenv("VITRO_PLUGINS");
  if (listed != nullptr && *listed != '\0') refuse_code("--plugin or VITRO_PLUGINS", listed);
}

}  // namespace vitro
