// Ftl: which flash page holds which logical sector, and which pages hold nothing of use. No time passes here.
//
// A superblock is one block of every plane of every die; data is laid out stripe by stripe over the dies, so neighbours in
// the address space lie on different dies. Before the first write the device holds `filled` sectors in place, as after
// copying files onto it. Superblocks of the SLC pool store one bit per cell: a third of the sectors, and faster programs.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro::hw {

struct FtlSpec {
  std::uint32_t dies = 1, stripe = 1;  // sectors of one stripe: one operation of one die
  std::uint32_t superblock = 1;        // sectors; a multiple of dies * stripe
  std::uint32_t superblocks = 1, slc_superblocks = 0;
  std::uint64_t filled = 0;  // sectors; a multiple of `superblock`
};

enum class Pool : std::uint8_t { tlc, slc };

class Ftl {
 public:
  struct Place {
    std::uint32_t superblock = 0, sector = 0;
    bool operator==(const Place&) const = default;
  };

  explicit Ftl(const FtlSpec& spec);

  // Where a logical sector lies; one that was never written lies where it would after filling the device.
  Place find(std::uint64_t sector) const;
  std::uint32_t die(Place place) const { return place.sector / spec_.stripe % spec_.dies; }

  // True when the pool has room for a stripe while `reserve` superblocks stay free.
  bool has_room(Pool pool, std::uint32_t reserve) const;
  // Writes up to one stripe (padded) at the pool's write pointer; the sectors' old places become invalid.
  // Requires: has_room(pool, 0).
  Place append(Pool pool, std::span<const std::uint64_t> sectors);

  // The full superblock with the fewest valid sectors, the lowest of equals; it is out of use until erased(). In the TLC
  // pool it has to hold some garbage, or collecting it would gain nothing.
  std::optional<std::uint32_t> take_victim(Pool pool);
  std::vector<std::uint64_t> valid_sectors(std::uint32_t superblock, std::uint32_t first, std::uint32_t count) const;
  void erased(std::uint32_t superblock);  // Requires: no valid sectors

  Pool pool(std::uint32_t superblock) const { return superblock < spec_.superblocks ? Pool::tlc : Pool::slc; }
  std::uint32_t sectors_of(std::uint32_t superblock) const;
  std::uint32_t valid(std::uint32_t superblock) const { return blocks_[superblock].valid; }
  std::uint32_t free(Pool pool) const { return pools_[static_cast<std::size_t>(pool)].free; }
  std::uint64_t total_valid() const;
  const FtlSpec& spec() const { return spec_; }

 private:
  enum class State : std::uint8_t { free, open, full, victim };
  struct Block {
    State state = State::free;
    bool in_place = false;  // holds its part of the filled space, so `sectors` is not needed
    std::uint32_t valid = 0, written = 0;
    std::vector<std::uint64_t> sectors;  // what was written, in order; kPadding where nothing was
  };
  struct PoolState {
    std::uint32_t first = 0, count = 0, free = 0;
    std::optional<std::uint32_t> open;
  };
  void invalidate(std::uint64_t sector);

  FtlSpec spec_;
  std::vector<Block> blocks_;
  PoolState pools_[2];
  std::unordered_map<std::uint64_t, Place> moved_;  // sectors that do not lie where filling put them
};

}  // namespace vitro::hw
