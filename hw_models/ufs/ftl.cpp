#include "hw_models/ufs/ftl.hpp"

#include <algorithm>
#include <limits>

#include "engine/base/check.hpp"

namespace vitro::hw {
namespace {

constexpr std::uint64_t kPadding = std::numeric_limits<std::uint64_t>::max();

}  // namespace

Ftl::Ftl(const FtlSpec& spec) : spec_(spec), blocks_(spec.superblocks + spec.slc_superblocks) {
  VITRO_CHECK(spec.superblock % (spec.dies * spec.stripe) == 0 && spec.filled % spec.superblock == 0, "superblocks hold whole stripes");
  const auto filled = static_cast<std::uint32_t>(spec.filled / spec.superblock);
  VITRO_CHECK(filled < spec.superblocks, "a full device has no place to write");
  for (std::uint32_t i = 0; i < filled; ++i) blocks_[i] = {State::full, true, spec.superblock, spec.superblock, {}};
  pools_[0] = {0, spec.superblocks, spec.superblocks - filled, {}};
  pools_[1] = {spec.superblocks, spec.slc_superblocks, spec.slc_superblocks, {}};
}

std::uint32_t Ftl::sectors_of(std::uint32_t superblock) const {
  if (pool(superblock) == Pool::tlc) return spec_.superblock;
  const std::uint32_t row = spec_.dies * spec_.stripe;  // whole rows, so that stripes stay aligned
  return std::max(spec_.superblock / 3 / row, 1u) * row;
}

Ftl::Place Ftl::find(std::uint64_t sector) const {
  if (const auto found = moved_.find(sector); found != moved_.end()) return found->second;
  return {static_cast<std::uint32_t>(sector / spec_.superblock), static_cast<std::uint32_t>(sector % spec_.superblock)};
}

bool Ftl::has_room(Pool pool, std::uint32_t reserve) const {
  const PoolState& state = pools_[static_cast<std::size_t>(pool)];
  return state.open.has_value() || state.free > reserve;
}

void Ftl::invalidate(std::uint64_t sector) {
  const auto found = moved_.find(sector);
  if (found == moved_.end() && sector >= spec_.filled) return;
  Block& block = blocks_[found != moved_.end() ? found->second.superblock : sector / spec_.superblock];
  VITRO_CHECK(block.valid > 0, "a sector lay in a superblock without valid sectors");
  --block.valid;
}

Ftl::Place Ftl::append(Pool pool, std::span<const std::uint64_t> sectors) {
  VITRO_CHECK(has_room(pool, 0) && !sectors.empty() && sectors.size() <= spec_.stripe, "a stripe goes where there is room");
  PoolState& state = pools_[static_cast<std::size_t>(pool)];
  if (!state.open) {
    std::uint32_t next = state.first;
    while (blocks_[next].state != State::free) ++next;
    blocks_[next] = {State::open, false, 0, 0, {}};
    state.open = next;
    --state.free;
  }
  const std::uint32_t superblock = *state.open;
  Block& block = blocks_[superblock];
  const Place first{superblock, block.written};
  for (const std::uint64_t sector : sectors) {
    invalidate(sector);
    moved_[sector] = {superblock, static_cast<std::uint32_t>(block.sectors.size())};
    block.sectors.push_back(sector);
    ++block.valid;
  }
  block.written += spec_.stripe;
  block.sectors.resize(block.written, kPadding);
  if (block.written == sectors_of(superblock)) {
    block.state = State::full;
    state.open.reset();
  }
  return first;
}

std::optional<std::uint32_t> Ftl::take_victim(Pool pool) {
  const PoolState& state = pools_[static_cast<std::size_t>(pool)];
  std::optional<std::uint32_t> best;
  for (std::uint32_t i = state.first; i < state.first + state.count; ++i) {
    if (blocks_[i].state == State::full && (!best || blocks_[i].valid < blocks_[*best].valid)) best = i;
  }
  if (!best || (pool == Pool::tlc && blocks_[*best].valid == spec_.superblock)) return std::nullopt;
  blocks_[*best].state = State::victim;
  return best;
}

std::vector<std::uint64_t> Ftl::valid_sectors(std::uint32_t superblock, std::uint32_t first, std::uint32_t count) const {
  const Block& block = blocks_[superblock];
  std::vector<std::uint64_t> valid;
  for (std::uint32_t i = first; i < first + count; ++i) {
    const std::uint64_t sector = block.in_place ? std::uint64_t{superblock} * spec_.superblock + i : block.sectors[i];
    if (sector != kPadding && find(sector) == Place{superblock, i}) valid.push_back(sector);
  }
  return valid;
}

void Ftl::erased(std::uint32_t superblock) {
  Block& block = blocks_[superblock];
  VITRO_CHECK(block.state == State::victim && block.valid == 0, "only a superblock without valid sectors may be erased");
  block = {};
  ++pools_[static_cast<std::size_t>(pool(superblock))].free;
}

std::uint64_t Ftl::total_valid() const {
  std::uint64_t total = 0;
  for (const Block& block : blocks_) total += block.valid;
  return total;
}

}  // namespace vitro::hw
