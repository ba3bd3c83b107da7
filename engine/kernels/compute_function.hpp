// ComputeFunction: gives every KernelCall its effect and its outcome by computing it.
#pragma once
#include <string>

#include "engine/kernels/common/kernel_set.hpp"
#include "engine/machine/function.hpp"

namespace vitro {

struct ComputeOptions {
  std::string set = "auto";  // a name of kernel_sets(); "auto" is the fastest that this machine runs
};

// The call's variant picks the numeric contract; the set only decides how fast it is computed. Calls that break their
// operator's contract, and views without bytes (a phantom run), are RunErrors.
class ComputeFunction final : public Function {
 public:
  explicit ComputeFunction(const ComputeOptions& options = {});
  const KernelSet& set() const { return set_; }
  Outcome execute(const KernelCall& call) override;

 private:
  const KernelSet& set_;
};

}  // namespace vitro
