// What the flow model needs to know of its detailed model, found by running probes on the detailed.
#pragma once
#include <string>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro::hw {

struct DerivedParameter {
  std::string key, value;  // as a device file writes it: "link_bandwidth", "4.277 GB/s"
  std::string how;         // which probes
};

// `storage` is the storage block of a device file; its flow parameters are not read, only present. Takes seconds.
std::vector<DerivedParameter> derive_flow_parameters(const Node& storage);

}  // namespace vitro::hw
