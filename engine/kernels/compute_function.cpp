#include "engine/kernels/compute_function.hpp"

#include "engine/base/check.hpp"
#include "engine/kernels/cpu/halves.hpp"
#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/contract.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {

ComputeFunction::ComputeFunction(const ComputeOptions& options) : set_(kernel_set(options.set)) {}

Outcome ComputeFunction::execute(const KernelCall& call) {
  check_call(call);
  const auto has_bytes = [&](const auto& views) {
    for (const View& view : views) {
      if (view.data() == nullptr)
        throw RunError(std::string(to_string(call.op)) + ": an operand has no bytes (a model of shapes can not be computed)");
    }
  };
  has_bytes(call.in);
  has_bytes(call.out);
  if (call.variant == variant::kReference) return run_reference(call);
  if (cpu::has_halves(call)) return cpu::compute_halves(set_, call);
  return std::visit([&](const auto& op) { return outcome_of([&] { return cpu::compute(op, set_, call); }); }, call.op);
}

}  // namespace vitro
