// The same probes on both fidelities of a storage device.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro::hw {

struct StorageFidelityRow {
  std::string id, unit;
  double detailed = 0, flow = 0;
};

// Reads and writes of all block sizes, and the published microbenchmarks; a case holds the probes of one block size.
std::vector<std::string> storage_fidelity_cases();
// Over data ranges, queue depths and issuing cores. `storage` is the storage block of a device file, whose parameters serve
// both models. Throws ConfigError on a case that does not exist.
std::vector<StorageFidelityRow> storage_fidelity(const Node& storage, std::string_view name);

}  // namespace vitro::hw
