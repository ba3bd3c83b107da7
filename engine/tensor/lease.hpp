// A block of memory that somebody may use, and where it lies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/units.hpp"

namespace vitro {

enum class Placement : std::uint8_t { dram, npu_tcm, npu_mapped, gpu };
inline constexpr std::size_t kPlacements = 4;

// What the bytes are for; peaks are kept per region and shown in the result.
enum class Region : std::uint8_t { fixed, hot, cold, kv, activation, staging, runtime, scales, predictor, adapter };
inline constexpr std::size_t kRegions = 10;
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

}  // namespace vitro
