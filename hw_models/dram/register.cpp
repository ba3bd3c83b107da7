#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/flow.hpp"

namespace vitro::hw {

void register_dram(Registry& registry) {
  registry.add(Entry<DramModel>{"lpddr.flow",
                                "DRAM: fluid max-min sharing of bandwidth, a cap per port and a total",
                                FlowDram::params(),
                                {"efficiency"},
                                [](const Site& site, const Params& params) { return std::make_unique<FlowDram>(site, params); }});
  registry.add(Entry<DramModel>{"lpddr.detailed",
                                "DRAM: channels, banks, refresh and FR-FCFS, line by line; for small runs and audits",
                                DetailedDram::params(),
                                {},
                                [](const Site& site, const Params& params) { return DetailedDram::make(site, params); }});
}

}  // namespace vitro::hw
