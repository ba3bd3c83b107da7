#include "hw_models/dram/address_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "engine/base/check.hpp"

namespace vitro::hw {
namespace {

constexpr std::string_view kNames[] = {"mop4", "mop4_column_xor", "robaracoch", "rocobarach", "chrabaroco"};
constexpr std::uint32_t kLineBits = 5;

std::uint32_t bits_of(std::uint32_t count, std::string_view what) {
  if (!std::has_single_bit(count)) throw ConfigError(fmt::format("dram: {} {} can not be mapped (expected a power of two)", count, what));
  return static_cast<std::uint32_t>(std::countr_zero(count));
}

constexpr std::uint32_t mask(std::uint32_t bits) { return (1u << bits) - 1; }

}  // namespace

std::span<const std::string_view> AddressMap::names() { return kNames; }

AddressMap::AddressMap(std::string_view name, const DramOrganisation& org)
    : group_bits_(bits_of(org.groups, "bank groups")), bank_bits_(bits_of(org.banks, "banks")) {
  using L = DramLocation;
  const std::uint32_t channel = bits_of(org.channels, "channels"), rank = bits_of(org.ranks, "ranks"), row = bits_of(org.rows, "rows"),
                      column = bits_of(org.lines_per_row(), "lines of a row");
  const auto banks = [&] {
    append(&L::rank, rank);
    append(&L::group, group_bits_);
    append(&L::bank, bank_bits_);
  };
  if (name == "mop4" || name == "mop4_column_xor") {
    constexpr std::uint32_t kRun = 2;
    append(&L::channel, channel);
    append(&L::column, kRun);
    banks();
    append(&L::column, column - kRun, kRun);
    append(&L::row, row);
    xor_ = name == "mop4" ? Xor::row : Xor::column;
  } else if (name == "robaracoch") {
    append(&L::channel, channel);
    append(&L::column, column);
    banks();
    append(&L::row, row);
  } else if (name == "rocobarach") {
    append(&L::channel, channel);
    banks();
    append(&L::column, column);
    append(&L::row, row);
  } else if (name == "chrabaroco") {
    append(&L::column, column);
    append(&L::row, row);
    append(&L::group, group_bits_);
    append(&L::bank, bank_bits_);
    append(&L::rank, rank);
    append(&L::channel, channel);
  } else {
    throw ConfigError(fmt::format("dram.mapping: \"{}\" is unknown (expected one of: {})", name, fmt::join(kNames, ", ")));
  }
}

void AddressMap::permute(DramLocation& location) const {
  if (xor_ == Xor::none) return;
  const std::uint32_t by = xor_ == Xor::row ? location.row : location.column;
  location.group ^= by & mask(group_bits_);
  location.bank ^= (by >> group_bits_) & mask(bank_bits_);
}

DramLocation AddressMap::decode(std::uint64_t address) const {
  DramLocation location;
  std::uint64_t rest = address >> kLineBits;
  for (const Slice& slice : slices_) {
    location.*slice.field |= (static_cast<std::uint32_t>(rest) & mask(slice.bits)) << slice.shift;
    rest >>= slice.bits;
  }
  permute(location);
  return location;
}

std::uint64_t AddressMap::encode(const DramLocation& location) const {
  DramLocation plain = location;
  permute(plain);
  std::uint64_t address = 0;
  std::uint32_t at = kLineBits;
  for (const Slice& slice : slices_) {
    address |= std::uint64_t{(plain.*slice.field >> slice.shift) & mask(slice.bits)} << at;
    at += slice.bits;
  }
  return address;
}

}  // namespace vitro::hw
