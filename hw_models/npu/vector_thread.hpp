// VectorThread: one HVX thread that issues instructions in order, several to a packet, one packet per cycle.
#pragma once
#include <span>

#include "engine/base/rng.hpp"
#include "hw_models/npu/parameters.hpp"

namespace vitro::hw {

// vlut: a vector of 8-bit indices into one table. VLUT16 has 16 entries of 16 bits, VLUT32 32 of 8 (T-MAN 5).
struct LookupTable {
  std::uint32_t entries = 16, entry_bits = 16;
};
inline constexpr std::uint32_t kIndexBits = 8;

// Values of `value_bits` that one vlut finds: an entry may hold two of them, or half of one.
double lookups_per_instruction(const HexagonParameters& parts, LookupTable table, std::uint32_t value_bits);
// A table of 2^g entries holds all signed sums of g activations: each look-up stands for g multiply-adds (T-MAN 4.3).
double madds_per_lookup(LookupTable table);
// In a loop of independent look-ups.
double packets_per_lookup(const HexagonParameters& parts, LookupTable table, std::uint32_t value_bits);

class VectorThread {
 public:
  explicit VectorThread(const HexagonParameters& parts) : parts_(parts) {}

  void lookup();  // its operands are ready
  // A vgather of halfwords at byte offsets into TCM, started when the one before has ended. Elements that share a bank wait
  // for each other (TTS-NPU 5.2.1: 24 to 48 packets).
  void gather(std::span<const std::uint32_t> offsets);

  double cycles() const { return packets_; }

 private:
  const HexagonParameters& parts_;
  double packets_ = 0;
  std::uint32_t slots_ = 0;  // taken in the packet that is being filled
  double lookups_ = 0;       // in that packet
};

}  // namespace vitro::hw
