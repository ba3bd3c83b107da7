#include "engine/machine/kernel_call.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {
namespace {

// In the order of Format.
// clang-format off
constexpr std::array<std::string_view, kFormatCount> kFormatNames{
    "f32", "f16", "bf16", "q4_0", "q8_0", "q4_k", "q5_k", "q6_k", "q4_nibbles",
    "w1g32", "w1g64", "w1g128", "w2g32", "w2g64", "w2g128", "w3g32", "w3g64", "w3g128", "w4g32", "w4g64", "w4g128",
    "w1g32z", "w1g64z", "w1g128z", "w2g32z", "w2g64z", "w2g128z", "w3g32z", "w3g64z", "w3g128z", "w4g32z", "w4g64z", "w4g128z",
    "iq4_nl", "fp4", "nf4",
    "w1g32r", "w1g64r", "w1g128r", "w2g32r", "w2g64r", "w2g128r", "w3g32r", "w3g64r", "w3g128r", "w4g32r", "w4g64r", "w4g128r",
    "int8_fp8", "index32"};
// clang-format on
static_assert(!kFormatNames.back().empty(), "a format has no name");

}  // namespace

std::string_view to_string(Layout layout) {
  switch (layout) {
    case Layout::rows: return "rows";
    case Layout::tiled: return "tiled";
    case Layout::lut: return "lut";
  }
  return "?";
}

std::string_view to_string(Op op) {
  switch (op) {
    case Op::embed: return "embed";
    case Op::rms_norm: return "rms_norm";
    case Op::matmul: return "matmul";
    case Op::rope: return "rope";
    case Op::kv_append: return "kv_append";
    case Op::attention: return "attention";
    case Op::glu: return "glu";
    case Op::add: return "add";
    case Op::gather: return "gather";
    case Op::route: return "route";
    case Op::expert_sum: return "expert_sum";
    case Op::reduce: return "reduce";
    case Op::sample: return "sample";
    case Op::copy: return "copy";
    case Op::select: return "select";
    case Op::accumulate: return "accumulate";
    case Op::precompute: return "precompute";
    case Op::softmax: return "softmax";
  }
  return "?";
}

std::string_view to_string(Exponential exponential) {
  switch (exponential) {
    case Exponential::table: return "table";
    case Exponential::f16: return "f16";
    case Exponential::f32: return "f32";
  }
  return "?";
}

std::string_view to_string(Method method) {
  switch (method) {
    case Method::automatic: return "automatic";
    case Method::lut: return "lut";
    case Method::fused: return "fused";
    case Method::convert: return "convert";
    case Method::copy: return "copy";
    case Method::scatter: return "scatter";
    case Method::uncoalesced: return "uncoalesced";
    case Method::native: return "native";
  }
  return "?";
}

std::string_view to_string(Format format) {
  const auto at = static_cast<std::size_t>(format);
  return at < kFormatCount ? kFormatNames[at] : "?";
}

std::optional<Format> format_by_name(std::string_view name) {
  const auto* const found = std::ranges::find(kFormatNames, name);
  if (found == kFormatNames.end()) return std::nullopt;
  return static_cast<Format>(found - kFormatNames.begin());
}

std::string describe(const KernelCall& call) {
  std::string out;
  const auto add = [&out](const std::string& part) { out += out.empty() ? part : ", " + part; };
  if (call.layer >= 0) add(fmt::format("layer {}", call.layer));
  if (call.expert >= 0) add(fmt::format("expert {}", call.expert));
  if (call.slice != Slice{}) add(fmt::format("{}+{}", call.slice.first, call.slice.count));
  if (call.rows) add(fmt::format("{} rows", call.rows->size()));
  return out;
}

}  // namespace vitro
