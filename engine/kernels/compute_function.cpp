#include "engine/kernels/compute_function.hpp"

#include "engine/base/check.hpp"
#include "engine/kernels/cpu/ops.hpp"
#include "engine/kernels/lut/attention_call.hpp"
#include "engine/ops/reference/reference.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {

ComputeFunction::ComputeFunction(const ComputeOptions& options) : set_(kernel_set(options.set)) {}

Outcome ComputeFunction::execute(const KernelCall& call) {
  contract::check_call(call);
  const auto has_bytes = [&](const auto& views) {
    for (const View& view : views) {
      if (view.data() == nullptr)
        throw RunError(std::string(to_string(call.op)) + ": an operand has no bytes (a model of shapes can not be computed)");
    }
  };
  has_bytes(call.in);
  has_bytes(call.out);
  if (call.variant == variant::kReference) return run_reference(call);
  switch (call.op) {
    case Op::embed:
      ops::embed(set_, call);
      break;
    case Op::rms_norm:
      ops::rms_norm(set_, call);
      break;
    case Op::matmul:
      ops::matmul(set_, call);
      break;
    case Op::rope:
      ops::rope(call);
      break;
    case Op::kv_append:
      ops::kv_append(set_, call);
      break;
    case Op::attention:
      call.variant == variant::kLutExp ? lut::attend(call) : ops::attention(set_, call);
      break;
    case Op::glu:
      return ops::glu(set_, call);
    case Op::add:
      ops::add(call);
      break;
    case Op::gather:
      ops::gather(call);
      break;
    case Op::route:
      return ops::route(set_, call);
    case Op::expert_sum:
      ops::expert_sum(set_, call);
      break;
    case Op::reduce:
      ops::reduce(call);
      break;
    case Op::sample:
      return ops::sample(set_, call);
    case Op::copy:
      ops::copy(call);
      break;
    case Op::select:
      return ops::select(set_, call);
    case Op::accumulate:
      ops::accumulate(set_, call);
      break;
    case Op::precompute:  // an accelerator's own tables: products compute their contract from x
      break;
    case Op::softmax:  // no step of a model has one: attention, routing and sampling have theirs inside
      return run_reference(call);
  }
  return {};
}

}  // namespace vitro
