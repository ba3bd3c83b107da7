// For tests of what calls cost: a model that knows one price and says what it was asked for, and operands.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "hw_models/compute.hpp"
#include "sim/work.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {

class FixedModel final : public hw::ComputeModel {
 public:
  const hw::DispatchCosts& dispatch() const override { return dispatch_; }
  hw::KernelCost kernel(std::string_view variant, std::string_view format) override {
    asked.push_back(std::string(variant) + "." + std::string(format));
    return {0, asked.back() == priced, asked.back() == priced};
  }
  void submit(const hw::Work&, hw::Callback) override {}
  void preempt(Picoseconds) override {}
  Hertz clock() const override { return {1e9}; }

  std::string priced;  // the one entry of its table
  std::vector<std::string> asked;

 private:
  hw::DispatchCosts dispatch_;
};

inline View view_of(Machine& machine, std::array<std::uint32_t, 3> shape, Format format, Region region) {
  View view;
  view.memory = machine.memory.lease(Bytes{shape[0]} * shape[1] * 4, Placement::dram, region).value_or_throw();
  view.shape = shape;
  view.format = format;
  return view;
}

}  // namespace vitro::sim
