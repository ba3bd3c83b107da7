// A neural engine (Apple's ANE) at flow fidelity: one queue of graphs with static shapes, in float16.
//
// A product streams its weights and then computes: NPUMoE Table 5 shows both times one after the other (docs/design/ane-gpu.md), so
// a graph of few rows is bound by the stream and one of many by the cores. Output channels go to the cores in blocks of
// `shape_multiple` elements (NPUMoE 3.2), to which every dimension is padded: a narrow product leaves cores idle.
// Weights in int8 take half of the stream, and become float16 on the way, at a rate of their own (NPUMoE 5.1).
// Attention reads keys and values once per tile of query rows; its softmax goes through slower element-wise hardware.
#pragma once
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/params.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

class FlowAne final : public ComputeModel {
 public:
  FlowAne(const Site& site, const Params& params);
  static std::vector<ParamSpec> params();

  const DispatchCosts& dispatch() const override { return dispatch_; }
  // One rate for all products, which are in float16. Of weights in int8 it has to know, since it turns them into that first.
  KernelCost kernel(std::string_view variant, std::string_view format) override;
  std::string objection(std::string_view op, std::string_view format) const override;  // NPUMoE Fig. 4
  void submit(const Work& work, Callback done) override;
  void preempt(Picoseconds) override {}  // runs no system work
  Picoseconds computed() const override { return call_overhead_ + activations_.pace; }
  Hertz clock() const override { return {0}; }

 private:
  double arithmetic_seconds(const Work& work) const;
  double stream_seconds(const Work& work) const;  // of a product's weights into the cores
  void compute();

  Context& context_;
  DramModel& dram_;
  PortId port_;
  std::uint16_t device_;
  DispatchCosts dispatch_;
  Picoseconds call_overhead_;
  std::uint32_t cores_, multiple_, tile_rows_;
  double macs_per_second_, elementwise_per_second_, stream_bandwidth_;
  double dequantised_per_second_;  // weights; 0: it reads float16 alone

  bool busy_ = false;
  DramRequest weights_, activations_;
  Callback done_;
};

}  // namespace vitro::hw
