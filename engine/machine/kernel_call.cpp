#include "engine/machine/kernel_call.hpp"

#include <fmt/format.h>

namespace vitro {

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
  }
  return "?";
}

std::string_view to_string(Format format) {
  switch (format) {
    case Format::f32: return "f32";
    case Format::f16: return "f16";
    case Format::bf16: return "bf16";
    case Format::q4_0: return "q4_0";
    case Format::q8_0: return "q8_0";
    case Format::q4_k: return "q4_k";
    case Format::q5_k: return "q5_k";
    case Format::q6_k: return "q6_k";
    case Format::q4_nibbles: return "q4_nibbles";
    case Format::index32: return "index32";
  }
  return "?";
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
