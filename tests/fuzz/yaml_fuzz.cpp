// Any text as YAML and as JSON. Only ConfigError may come out, and what was read must survive being written as JSON. What the reader of
// tables takes, yaml-cpp reads as the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/config.hpp"
#include "engine/base/plain_yaml.hpp"
#include "tests/fuzz/budget.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vitro;
  const fuzz::Budget budget(size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool yaml : {true, false}) {
    std::string json;
    try {
      json = (yaml ? parse_yaml(text, "fuzz") : parse_json(text, "fuzz")).to_json();
    } catch (const ConfigError&) {
      continue;
    }
    if (yaml) VITRO_CHECK(parse_any_yaml(text, "fuzz").to_json() == json, "the reader of tables and yaml-cpp differ");
    if (json.find("\xef\xbf\xbd") != std::string::npos) continue;  // U+FFFD: malformed keys may have become equal
    VITRO_CHECK(parse_json(json, "written").to_json() == json, "written JSON reads back differently");
  }
  return 0;
}
