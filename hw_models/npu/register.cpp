#include "hw_models/npu/hexagon_detailed.hpp"
#include "hw_models/npu/hexagon_flow.hpp"

namespace vitro::hw {

void register_npu(Registry& registry) {
  registry.add(Entry<ComputeModel>{"hexagon.flow",
                                   "NPU: closed form of the tile pipeline (DMA, HVX, HMX), one DRAM request per call",
                                   HexagonParameters::specs(),
                                   {"kernels", "more_kernels"},
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowHexagon>(site, params); }});
  registry.add(Entry<ComputeModel>{"hexagon.detailed",
                                   "NPU: tile groups through DMA, HVX and HMX, event by event, with buffers in TCM",
                                   HexagonParameters::specs(),
                                   {"kernels", "more_kernels"},
                                   [](const Site& site, const Params& params) { return std::make_unique<DetailedHexagon>(site, params); }});
}

}  // namespace vitro::hw
