// Memory under a byte budget. It never waits and never evicts: "over budget" is an answer that the policy handles.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/status.hpp"
#include "engine/base/units.hpp"

namespace vitro {

enum class Placement : std::uint8_t { dram, npu_tcm, npu_mapped, gpu };
inline constexpr std::size_t kPlacements = 4;

// What the bytes are for; peaks are kept per region and shown in the result.
enum class Region : std::uint8_t { fixed, hot, cold, kv, activation, staging, runtime, scales, predictor };
inline constexpr std::size_t kRegions = 9;
std::string_view to_string(Region region);

struct Block {
  Placement placement = Placement::dram;
  Region region = Region::fixed;
  Bytes size = 0;             // of the address range
  std::byte* data = nullptr;  // null in a phantom run (numerics: off): accounted, never touched
  std::uint64_t id = 0;
};

// A shared handle: the block goes back to the budget when the last holder lets go. An operation in flight holds one, so
// dropping everything else can not free the buffer under it.
class Lease {
 public:
  Lease() = default;
  explicit Lease(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  explicit operator bool() const { return block_ != nullptr; }
  Bytes size() const { return block_->size; }
  Placement placement() const { return block_->placement; }
  std::byte* data() const { return block_->data; }
  std::uint64_t id() const { return block_->id; }
  const Block* block() const { return block_.get(); }

 private:
  std::shared_ptr<Block> block_;
};

struct Budget {
  Bytes limit = 0, used = 0, peak = 0;
  std::array<Bytes, kRegions> region_used{}, region_peak{};
};

class Memory {
 public:
  virtual ~Memory() = default;

  // `size` bytes, aligned to kPageSize and zeroed. Code::over_budget when they do not fit now.
  virtual Result<Lease> lease(Bytes size, Placement where, Region region) = 0;

  // An address range of which nothing is resident yet: it costs no budget until commit(). For weights that a policy
  // loads piecewise but kernels want to see in one piece, and for a KV pool that grows.
  virtual Result<Lease> reserve(Bytes size, Placement where, Region region) = 0;
  // Makes [offset, offset + length) of a reserved range usable and charges it. Requires: page-aligned, not committed.
  virtual Status commit(const Lease& range, Bytes offset, Bytes length) = 0;
  // Gives the bytes back, to the budget and to the operating system. Requires: committed.
  virtual void decommit(const Lease& range, Bytes offset, Bytes length) = 0;

  // As of this call; call again for newer numbers.
  virtual const Budget& budget(Placement where) const = 0;
};

}  // namespace vitro
