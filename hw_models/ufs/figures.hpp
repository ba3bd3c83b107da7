// The published storage microbenchmarks as probes, by the ids under which they are quoted in device files.
//
// The block-size curve is read as one command at a time from the big core, Table 1 and the range curve as a full queue: the only
// reading under which 4 KB sequential (450 MB/s) may be slower than 4 KB random (1 GB/s). The "1 GB/s" within 128 MB is what
// Table 1 has for a mid core (1007.95 MB/s). Random 512 KB reads stay within the 128 MB of the other random reads.
#pragma once
#include <span>
#include <string_view>

#include "hw_models/ufs/probe.hpp"

namespace vitro::hw {

struct StorageFigure {
  std::string_view id, unit;
  double (*measure)(const Node& storage);  // on the storage block of a device file, in `unit`
};

// Of UFS 4.0; in the order of the paper.
std::span<const StorageFigure> ufs4_figures();
// Of an NVMe SSD.
std::span<const StorageFigure> nvme_figures();

// Clocks of the three core classes of the phone that was measured (PowerInfer-2 Table 1).
inline constexpr Hertz kBigCore{3.3e9}, kMidCore{3.0e9}, kLittleCore{2.2e9};

}  // namespace vitro::hw
