// What both fidelities of the NPU share: parameters, prices, the queue in front, and the ports at the DRAM.
#pragma once
#include "hw_models/npu/pipeline.hpp"
#include "hw_models/npu/transport.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

// One port for the DMA engine, one for everything that comes through L2.
class MemoryPorts {
 public:
  MemoryPorts(const Site& site, const HexagonParameters& parts);
  // `done` when all bytes have moved; not before `pace` has passed.
  void move(Path path, Bytes read, Bytes written, Picoseconds pace, Callback done);

 private:
  DramModel& dram_;
  PortId dma_, l2_;
};

class Hexagon : public ComputeModel {
 public:
  Hexagon(const Site& site, const Params& params);

  const DispatchCosts& dispatch() const override { return transport_.dispatch; }
  KernelCost kernel(std::string_view variant, std::string_view format) override { return kernels_.find(variant, format); }
  void submit(const Work& work, Callback done) override;
  void preempt(Picoseconds) override {}  // runs no system work
  void set_clock_scale(double share) override;
  Picoseconds computed() const override;
  Hertz clock() const override { return {0}; }
  TilePlan plan(const Work& work) const;  // what submit() runs; throws as TilePlanner::plan()
  const TilePlanner& planner() const { return planner_; }

 protected:
  virtual void start(const TilePlan& plan) = 0;  // after the call's overhead; ends with end()
  void end();

  Context& context_;
  HexagonParameters parts_;  // at the clocks of now
  const TilePlanner planner_;
  mutable PipelineTimes times_{planner_};
  MemoryPorts ports_;
  std::uint16_t device_;

 private:
  const double full_clock_, full_hmx_clock_;  // Hz
  Transport transport_;
  HexagonKernels kernels_;
  Picoseconds call_overhead_;
  TilePlan plan_;
  bool busy_ = false;
  Callback done_;
};

}  // namespace vitro::hw
