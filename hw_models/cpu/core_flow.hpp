// A CPU core at flow fidelity: a call takes the longer of its arithmetic and its memory traffic, which the DRAM model
// shares out, plus a fixed cost per call. Of caches it knows one thing: activations that fit `cache` as a whole are still
// there from the call that wrote them, and stay there for the one that reads them. Weights and KV come from DRAM, unless
// `miss_time` says what it adds that they left the core's own cache, by how much has moved in between.
#pragma once
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/cpu/core_costs.hpp"
#include "hw_models/cpu/reuse_curve.hpp"
#include "hw_models/params.hpp"
#include "hw_models/piece.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

class FlowCore final : public ComputeModel, public PieceModel {
 public:
  FlowCore(const Site& site, const Params& params);
  static std::vector<ParamSpec> params();
  static std::vector<std::string> tables();

  const DispatchCosts& dispatch() const override { return dispatch_; }
  KernelCost kernel(std::string_view variant, std::string_view format) override;
  void prepare(Work& work) const override { work.cycles = prices_.without_runs(work); }
  void submit(const Work& work, Callback done) override;
  Picoseconds add_to_piece(const Work& call) override;
  void submit_piece(Callback done) override;
  std::span<const Part> parts() const override { return parts_; }
  void preempt(Picoseconds duration) override;
  void set_clock_scale(double share) override { clock_.value = full_clock_ * share; }
  Picoseconds computed() const override { return computed_; }
  bool stateless() const override { return true; }
  Hertz clock() const override { return clock_; }

 private:
  struct Price {
    Picoseconds computed{0}, pace{0};  // without overhead; by itself, and with what it waits for of what left the cache
    Bytes read = 0, written = 0;
  };
  Price price(const Work& work) const;
  void start();  // traffic_
  void start_traffic();
  void end_call();

  Context& context_;
  DramModel& dram_;
  PortId port_;
  BytesPerSecond most_;  // of memory, by this core
  std::uint16_t device_;
  Hertz clock_;
  double full_clock_;  // Hz
  Bytes cache_;
  DispatchCosts dispatch_;
  Picoseconds call_overhead_;
  CoreCosts prices_;
  ReuseCurve reuse_;

  bool busy_ = false;
  DramRequest traffic_;
  std::vector<Part> parts_;
  bool piece_submitted_ = true;  // the next call that is added begins another
  Picoseconds computed_{0};
  Picoseconds stolen_{0};  // by system work, still to be added to the call in progress
  Callback done_;
};

}  // namespace vitro::hw
