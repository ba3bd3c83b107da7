#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace vitro {

// JSON text with quotes. Bytes that are no UTF-8 become replacement characters instead of an exception.
inline std::string json_text(std::string_view text) {
  const auto stands_for_itself = [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, stands_for_itself)) {  // nearly every text of a trace
    std::string out(text.size() + 2, '"');
    std::ranges::copy(text, out.begin() + 1);
    return out;
  }
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace vitro
