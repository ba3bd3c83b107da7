#include "engine/ops/kernel_call.hpp"

#include <fmt/format.h>

#include <atomic>

namespace vitro {

std::uint32_t number_activations() {
  static std::atomic<std::uint32_t> last{0};
  const std::uint32_t number = ++last;
  return number != 0 ? number : ++last;
}

std::string_view to_string(Method method) {
  switch (method) {
    case Method::automatic:
      return "automatic";
    case Method::lut:
      return "lut";
    case Method::fused:
      return "fused";
    case Method::two_level:
      return "two_level";
    case Method::scaled_tables:
      return "scaled_tables";
    case Method::convert:
      return "convert";
    case Method::convert_in_halves:
      return "convert_in_halves";
    case Method::copy:
      return "copy";
    case Method::scatter:
      return "scatter";
    case Method::uncoalesced:
      return "uncoalesced";
    case Method::native:
      return "native";
    case Method::image:
      return "image";
    case Method::buffer:
      return "buffer";
    case Method::file:
      return "file";
  }
  return "?";
}

bool reports_active(const KernelCall& call) {
  return call.is<ops::Select>() || (call.is<ops::Glu>() && call.get<ops::Glu>().report_active);
}

std::string describe(const KernelCall& call) {
  std::string out;
  const auto add = [&out](const std::string& part) { out += out.empty() ? part : ", " + part; };
  if (call.layer >= 0) add(fmt::format("layer {}", call.layer));
  if (call.expert == kForeseen) add("foreseen");
  else if (call.expert >= 0) add(fmt::format("expert {}", call.expert));
  if (call.slice != Slice{}) add(fmt::format("{}+{}", call.slice.first, call.slice.count));
  if (call.rows) add(fmt::format("{} rows", call.rows->size()));
  return out;
}

}  // namespace vitro
