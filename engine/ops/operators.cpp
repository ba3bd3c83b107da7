#include "engine/ops/operators.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/contract.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro {

// A simulation makes 100,000 calls for a token, and copies them.
static_assert(sizeof(Op) <= 24 && std::is_trivially_copyable_v<Op>, "parameters of an operator are a few plain numbers");

std::string_view to_string(const Op& op) {
  return std::visit([](const auto& o) { return o.kName; }, op);
}

void check_call(const KernelCall& call) {
  std::visit(
      [&](const auto& op) {
        const ops::Checker check(call, op.kArity);
        check.arity();
        op.check(check);
      },
      call.op);
}

WorkCounts count(const KernelCall& call) {
  ops::Counter counter(call);
  std::visit([&](const auto& op) { op.count(counter); }, call.op);
  return counter.counts;
}

Outcome run_reference(const KernelCall& call, WorkCounts* tally) {
  WorkCounts ignored;
  ops::Reference reference(call, tally != nullptr ? *tally : ignored);
  return std::visit([&](const auto& op) { return outcome_of([&] { return op.reference(reference); }); }, call.op);
}

}  // namespace vitro
