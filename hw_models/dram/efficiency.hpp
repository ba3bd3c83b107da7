// FlowEfficiency: what share of a part's sequential bandwidth its agents get, by how they use it. Derived from the detailed
// model by derive_flow_efficiency(); the flow model scales its total with it.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hw_models/dram/controller.hpp"
#include "hw_models/dram/dram.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

class FlowEfficiency {
 public:
  using Entries = std::vector<std::pair<std::string, double>>;

  FlowEfficiency() = default;  // everything at 1, no total of its own
  // Keys: sequential (bytes per second), chunk.BYTES, strided.CHUNK/STRIDE, agents.COUNT, writes.SHARE. Throws ConfigError on
  // another key; `name` is for the message.
  FlowEfficiency(const Entries& entries, const std::string& name);

  bool known() const { return sequential_ > 0; }
  BytesPerSecond sequential() const { return {sequential_}; }
  // One request alone: by chunk, or by chunk and the power of two in its stride. In between, linear in log2.
  double of(const DramRequest& request) const;
  double of_readers(std::size_t agents) const;
  double of_writes(double share) const;  // by share of the bytes, other agents reading

  const Entries& entries() const { return entries_; }

 private:
  using Curve = std::vector<std::pair<double, double>>;  // ascending
  static double at(const Curve& curve, double x);
  double strided(double chunk, double stride) const;

  Entries entries_;
  double sequential_ = 0;
  Curve chunks_, agents_, writes_;
  std::vector<std::pair<double, Curve>> strides_;  // by chunk
};

// The characterisation run: probes of the detailed model. Deterministic; a second or two.
FlowEfficiency derive_flow_efficiency(const DramPart& part, std::string_view mapping, const ControllerPolicy& policy);
// What it gave for a part with mapping mop4 and per-bank refresh, as committed (efficiency_table.cpp). Requires: a known part.
FlowEfficiency derived_flow_efficiency(std::string_view part);

}  // namespace vitro::hw
