#include "engine/parts/placement/useful_threads.hpp"

#include <algorithm>

namespace vitro {

std::uint32_t useful_threads(Bytes bytes_per_token, std::uint32_t layers, std::uint32_t most) {
  // A core reads so much while another one is handed a phase and answers: some 20 us at some 12 GB/s (docs/design/machine-host.md).
  constexpr Bytes kPerThread = 256 * KiB;
  const Bytes phase = bytes_per_token / (4 * layers + 2);  // lowering makes four of a layer, and two of what follows
  return static_cast<std::uint32_t>(std::clamp<Bytes>(phase / kPerThread, 1, most));
}

}  // namespace vitro
