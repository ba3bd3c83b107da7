// A matrix NPU (Hexagon: HMX tiles, HVX vectors, DMA) at flow fidelity: a graph launch, then per call the longer of
// matrix work, vector work and the weight stream by DMA.
#pragma once
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/kernel_rates.hpp"
#include "hw_models/params.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

class FlowHexagon final : public ComputeModel {
 public:
  FlowHexagon(const Site& site, const Params& params);
  static std::vector<ParamSpec> params();

  const HandOff& hand_off() const override { return hand_off_; }
  KernelPrice kernel(std::string_view variant, std::string_view format) override { return rates_.find(variant, format); }
  void submit(const Work& work, Callback done) override;
  void preempt(Picoseconds) override {}  // runs no system work
  void set_clock_scale(double share) override { clock_scale_ = share; }
  Hertz clock() const override { return {0}; }

 private:
  Context& context_;
  DramModel& dram_;
  PortId port_;
  std::uint16_t device_;
  HandOff hand_off_;
  Picoseconds call_overhead_;
  KernelRates rates_;
  double elementwise_per_second_, conversions_per_second_, lookups_per_second_, stream_bandwidth_;
  std::uint32_t tile_rows_;
  double clock_scale_ = 1;  // of the matrix and vector units

  bool busy_ = false;
  DramRequest traffic_;
  Callback done_;
};

}  // namespace vitro::hw
