#include "engine/machine/kernel_call.hpp"

namespace vitro {

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
    case Format::index32: return "index32";
  }
  return "?";
}

}  // namespace vitro
