// The kernel table: what one (variant, weight format) needs of the NPU's units. Values are counts, so that a file with
// packets counted under emulation can take the place of estimates.
//
//   kernels:
//     kind: derived
//     source: "packets executed by our HVX kernels"
//     hmx:                                            # or hvx: where the multiply-adds run
//       dma:                                          # or l2fetch, vector_load: how the weights come in
//         float: {q4_0: {packets_per_weight: 0.035}}  # variant, format
//
// packets_per_weight  of HVX, to make a weight ready (unpack, scale, permute into tiles)
// packets_per_mac     of HVX, per multiply-add (hvx alone; default: the general price)
// packets_per_lookup  of HVX, per table look-up (default: vlut16 on 16-bit entries)
// bits                of an HMX operand: 16, 8 or 4 (hmx alone; default 16)
// threads             HVX threads that share the work (default: all)
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hw_models/npu/parameters.hpp"

namespace vitro::hw {

struct Kernel {
  bool matrix = false;  // on HMX
  Path path = Path::dma;
  std::uint32_t threads = 1;
  std::uint32_t bits = 16;
  double packets_per_weight = 0, packets_per_mac = 0, packets_per_lookup = 0;
};

class HexagonKernels {
 public:
  // Throws ConfigError on a unit, a path or a quantity that does not exist. `table` may be empty.
  HexagonKernels(const ParamTable& table, const HexagonParameters& parts);

  // What the table lacks runs on one HVX thread at the general price.
  KernelPrice find(std::string_view variant, std::string_view format);
  // Requires: `id` is from find(), or 0 before the first one.
  const Kernel& operator[](std::uint16_t id) const { return known_.at(id).kernel; }

 private:
  struct Entry {
    std::string name;  // "float.q4_0"
    bool from_table = false;
    Kernel kernel;
  };
  Entry* entry(std::vector<Entry>& entries, std::string_view name);
  void read(const ParamTable& table, const std::string& key, double value);

  std::uint32_t threads_;
  Kernel general_;
  std::vector<Entry> table_, known_;
};

}  // namespace vitro::hw
