// A GPU at flow fidelity: a roofline per kernel. A launch costs a command submission, once per chain; within it a kernel takes
// the longer of its arithmetic, at a rate per (variant, weight format), and its memory traffic.
//
// A product whose way the table `products` knows (KernelCall::method) is priced by what its kernel does (MNN-LLM 5.1): each pass over
// the weights serves so many rows of activations, loads them through the path of images or of buffers, and unpacks them with their scales
// and zero points. docs/design/gpu.md has the formula.
//
// Attention is fused: a tile of query rows shares one pass over its keys and values.
#pragma once
#include <map>
#include <string>
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
  KernelCost kernel(std::string_view variant, std::string_view format) override;
  void submit(const Work& work, Callback done) override;
  void preempt(Picoseconds) override {}  // runs no system work
  Picoseconds computed() const override { return kernel_overhead_ + traffic_.pace; }
  Hertz clock() const override { return {0}; }

 private:
  // One way to carry products out.
  struct Way {
    double rows = 1;    // of activations, that a pass over the weights serves
    double fetch = 0;   // bytes per second that its loads of weights reach
    double stored = 0;  // bytes per weight of the copy that is unpacked to memory first; 0: weights are unpacked in each pass
  };
  struct Cost {
    double seconds = 0;           // of arithmetic and loads
    Bytes read = 0, written = 0;  // beside the operands
  };
  double of_products(const std::string& key) const;  // throws ConfigError when the table lacks it
  Cost product(const Work& work, const Way& way) const;

  Context& context_;
  DramModel& dram_;
  PortId port_;
  std::uint16_t device_;
  DispatchCosts dispatch_;
  Picoseconds kernel_overhead_;
  KernelRates rates_;
  double attention_macs_per_second_, elementwise_per_second_, conversions_per_second_, lookups_per_second_;
  std::uint32_t tile_rows_;
  const ParamTable& products_;
  // Operations to unpack a weight, and the scale and the zero point of a group of them.
  double unpack_weight_ = 0, unpack_scale_ = 0, unpack_zero_point_ = 0, operations_per_second_ = 0;
  std::map<std::uint16_t, Way> ways_;  // by kernel

  bool busy_ = false;
  DramRequest traffic_;
  Callback done_;
};

}  // namespace vitro::hw
