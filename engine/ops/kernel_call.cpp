#include "engine/ops/kernel_call.hpp"

#include <fmt/format.h>

namespace vitro {

std::string_view to_string(Op op) {
  switch (op) {
    case Op::embed:
      return "embed";
    case Op::rms_norm:
      return "rms_norm";
    case Op::matmul:
      return "matmul";
    case Op::rope:
      return "rope";
    case Op::kv_append:
      return "kv_append";
    case Op::attention:
      return "attention";
    case Op::glu:
      return "glu";
    case Op::add:
      return "add";
    case Op::gather:
      return "gather";
    case Op::route:
      return "route";
    case Op::expert_sum:
      return "expert_sum";
    case Op::reduce:
      return "reduce";
    case Op::sample:
      return "sample";
    case Op::copy:
      return "copy";
    case Op::select:
      return "select";
    case Op::accumulate:
      return "accumulate";
    case Op::precompute:
      return "precompute";
    case Op::softmax:
      return "softmax";
  }
  return "?";
}

std::string_view to_string(Exponential exponential) {
  switch (exponential) {
    case Exponential::table:
      return "table";
    case Exponential::f16:
      return "f16";
    case Exponential::f32:
      return "f32";
  }
  return "?";
}

std::string_view to_string(Method method) {
  switch (method) {
    case Method::automatic:
      return "automatic";
    case Method::lut:
      return "lut";
    case Method::fused:
      return "fused";
    case Method::convert:
      return "convert";
    case Method::copy:
      return "copy";
    case Method::scatter:
      return "scatter";
    case Method::uncoalesced:
      return "uncoalesced";
    case Method::native:
      return "native";
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
