// ReuseCurve: how fast a core reads weights, keys and values that it has read before. A decoder comes back to them in a loop, so what
// counts is how much has moved in between (the reuse distance): a cache that holds as much still has them.
#pragma once
#include <optional>
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

class ReuseCurve {
 public:
  struct Cost {
    double seconds = 0;   // the least time in which the core takes the bytes
    bool cached = false;  // they do not cross the DRAM bus
  };
  // table: GB/s of one core by MiB of reuse distance ("16": 24.1), as a loop over that many bytes measures it. Between its
  // entries the time per byte is linear in the logarithm of the distance, beyond them constant. Distances up to its entry
  // "private_cache" (MiB) are what this core has moved, longer ones what all have; beyond "shared_cache" (MiB) the bytes come from
  // DRAM. Either is 0 when it is missing. Throws ConfigError for a distance that is no number, or a bandwidth of 0.
  explicit ReuseCurve(const ParamTable& table);

  std::optional<Cost> cost(const Work& work) const;  // none without a table, or for a call that reuses nothing

 private:
  double seconds_per_byte(double distance) const;

  struct Point {
    double log_distance, seconds_per_byte;
  };
  std::vector<Point> points_;  // ascending
  Bytes private_cache_ = 0, shared_cache_ = 0;
};

}  // namespace vitro::hw
