#include "hw_models/npu/vector_thread.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace vitro::hw {

double lookups_per_instruction(const HexagonParameters& parts, LookupTable table, std::uint32_t value_bits) {
  const double indices = static_cast<double>(parts.vector_bytes) * 8 / kIndexBits;
  return indices * table.entry_bits / value_bits;
}

double madds_per_lookup(LookupTable table) { return std::bit_width(table.entries) - 1; }

double packets_per_lookup(const HexagonParameters& parts, LookupTable table, std::uint32_t value_bits) {
  constexpr int kLoop = 1024;
  VectorThread thread(parts);
  for (int i = 0; i < kLoop; ++i) thread.lookup();
  return thread.cycles() / kLoop / lookups_per_instruction(parts, table, value_bits);
}

void VectorThread::lookup() {
  if (packets_ == 0 || slots_ == parts_.vliw_slots || lookups_ + 1 > parts_.lookups_per_packet) {
    // Below one per packet, the unit is busy for several.
    packets_ += std::max(1.0, 1 / parts_.lookups_per_packet);
    slots_ = 0;
    lookups_ = 0;
  }
  ++slots_;
  ++lookups_;
}

void VectorThread::gather(std::span<const std::uint32_t> offsets) {
  std::vector<std::uint32_t> load(parts_.tcm_banks);
  for (const std::uint32_t offset : offsets) ++load[offset / 2 % parts_.tcm_banks];
  const std::uint32_t most = load.empty() ? 0 : *std::max_element(load.begin(), load.end());
  packets_ += parts_.gather_packets + (most > 1 ? (most - 1) * parts_.gather_conflict_packets : 0);
  slots_ = parts_.vliw_slots;  // whatever comes next needs a packet of its own
}

}  // namespace vitro::hw
