// A GPU at flow fidelity: a roofline per kernel. A launch costs a command submission, once per chain; within it a kernel takes
// the longer of its arithmetic, at a rate per (variant, weight format), and its memory traffic.
//
// Attention is fused: a tile of query rows shares one pass over its keys and values.
#pragma once
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/kernel_rates.hpp"
#include "hw_models/params.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

class FlowGpu final : public ComputeModel {
 public:
  FlowGpu(const Site& site, const Params& params);
  static std::vector<ParamSpec> params();

  const DispatchCosts& dispatch() const override { return dispatch_; }
  KernelCost kernel(std::string_view variant, std::string_view format) override { return rates_.find(variant, format); }
  void submit(const Work& work, Callback done) override;
  void preempt(Picoseconds) override {}  // runs no system work
  Picoseconds computed() const override { return kernel_overhead_ + traffic_.pace; }
  Hertz clock() const override { return {0}; }

 private:
  Context& context_;
  DramModel& dram_;
  PortId port_;
  std::uint16_t device_;
  DispatchCosts dispatch_;
  Picoseconds kernel_overhead_;
  KernelRates rates_;
  double attention_macs_per_second_, elementwise_per_second_, conversions_per_second_, lookups_per_second_;
  std::uint32_t tile_rows_;

  bool busy_ = false;
  DramRequest traffic_;
  Callback done_;
};

}  // namespace vitro::hw
