// The NPU at flow fidelity: the recurrence of the tile pipeline, as one request to the DRAM for what is read and one for results.
#pragma once
#include "hw_models/npu/hexagon.hpp"

namespace vitro::hw {

class FlowHexagon final : public Hexagon {
 public:
  using Hexagon::Hexagon;

 private:
  void start(const TilePlan& plan) override;

  struct Out {
    Path path{};
    Bytes bytes = 0;
    Picoseconds pace{0};
  } out_;  // what the call writes, behind what it reads
};

}  // namespace vitro::hw
