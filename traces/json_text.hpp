#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace vitro {

// JSON text with quotes. Bytes that are no UTF-8 become replacement characters instead of an exception.
inline std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace vitro
