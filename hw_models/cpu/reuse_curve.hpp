// ReuseCurve: what it adds to a call that its weights, keys and values are no longer in the core's own cache. A decoder comes back to them
// in a loop, so what counts is how much has moved in between (the reuse distance): a cache that holds as much still has them. The addition
// does not depend on the arithmetic: loops over one to 64 rows grow by the same time (docs/guide/calibrate.md).
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "hw_models/compute.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

class ReuseCurve {
 public:
  struct Cost {
    double seconds = 0;     // beside the arithmetic
    double dram_share = 0;  // of the bytes, that cross the DRAM bus; the others come from a shared cache
  };
  // table: nanoseconds for each line of 64 bytes by MiB of reuse distance ("96": 2.1). Between its entries they are linear in the
  // logarithm of the distance, beyond the last constant: there all lines come from DRAM, at the first one none. Distances up to its entry
  // "private_cache" (MiB; 0 when it is missing) are what this core has moved and add nothing, longer ones what all have. Entries that are
  // no number are kernels ("float.q8_0": 3.1): how much more than the curve each of them is slowed down; 1 for the others.
  // Throws ConfigError for a time of 0 at the last distance, or a table of kernels alone.
  explicit ReuseCurve(const ParamTable& table);

  // Kernels are told as they are numbered (KernelCost::id).
  void name(std::uint16_t id, std::string_view variant, std::string_view format);
  std::optional<Cost> cost(const Work& work) const;  // none without a table, or for a call that reuses nothing

 private:
  double ns_per_line(double distance) const;

  struct Point {
    double log_distance, ns;
  };
  const ParamTable& table_;
  std::vector<Point> points_;  // ascending
  Bytes private_cache_ = 0;
  std::vector<double> factors_;  // by kernel
};

}  // namespace vitro::hw
