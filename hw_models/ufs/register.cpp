#include "hw_models/ufs/detailed.hpp"
#include "hw_models/ufs/flow.hpp"
#include "hw_models/ufs/parameters.hpp"

namespace vitro::hw {

void register_ufs(Registry& registry) {
  registry.add(Entry<StorageModel>{"ufs.flow",
                                   "UFS: issue cost on a core, queue, overlapped latency, full-duplex link, DMA through DRAM",
                                   flow_ufs_params(),
                                   {},
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowUfs>(site, params); }});
  registry.add(Entry<StorageModel>{"ufs.detailed",
                                   "UFS by pages: queue slots, map cache, NAND dies and channels, SLC buffer, collection",
                                   detailed_ufs_params(),
                                   {},
                                   [](const Site& site, const Params& params) { return std::make_unique<DetailedUfs>(site, params); }});
}

}  // namespace vitro::hw
