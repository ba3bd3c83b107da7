// AddressMap: which channel, bank, row and column an address lies in.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "hw_models/dram/timing.hpp"

namespace vitro::hw {

struct DramLocation {
  std::uint32_t channel = 0, rank = 0, group = 0, bank = 0, row = 0, column = 0;  // column: a line of the row
  friend bool operator==(const DramLocation&, const DramLocation&) = default;
};

// Mappings, from the lowest address bits up (above the 32 bytes of a line); addresses wrap at the capacity:
//   mop4             channel, 2 column, rank, group, bank, column, row; row bits XORed into group and bank. Four lines of a
//                    channel stay in a row (minimalist open page: Kaseridis, Stuecheli, John, MICRO 2011, section 4).
//   mop4_column_xor  the same, with column bits XORed in place of row bits, as some public simulators do.
//   robaracoch       channel, column, rank, group, bank, row: a row is read to its end.
//   rocobarach       channel, rank, group, bank, column, row: every line of a channel in another bank.
//   chrabaroco       column, row, group, bank, rank, channel: no interleaving.
class AddressMap {
 public:
  // Throws ConfigError on an unknown name (the message lists the known ones) or a count that is no power of two.
  AddressMap(std::string_view name, const DramOrganisation& organisation);

  DramLocation decode(std::uint64_t address) const;
  std::uint64_t encode(const DramLocation& location) const;  // the lowest address that decodes to it

  static std::span<const std::string_view> names();

 private:
  enum class Xor : std::uint8_t { none, row, column };
  using Field = std::uint32_t DramLocation::*;
  struct Slice {
    Field field;
    std::uint32_t bits, shift;  // these bits of the field start at `shift`
  };
  void append(Field field, std::uint32_t bits, std::uint32_t shift = 0) { slices_.push_back({field, bits, shift}); }
  void permute(DramLocation& location) const;  // its own inverse

  std::vector<Slice> slices_;  // from the lowest bit up
  std::uint32_t group_bits_ = 0, bank_bits_ = 0;
  Xor xor_ = Xor::none;
};

}  // namespace vitro::hw
