// An affine copy of elements (MNN-LLM 5.4): element src.offset + src.stride x of one tensor becomes dst.offset + dst.stride x of another,
// for every x in [0, size). engine/graph/region.hpp makes lists of them for rearrangements, and fuses lists that follow each other.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

namespace vitro {

inline constexpr std::size_t kRegionLoops = 3;

struct CopyRegion {
  struct Side {
    std::uint32_t offset = 0;
    std::array<std::uint32_t, kRegionLoops> stride{};
    friend auto operator<=>(const Side&, const Side&) = default;
    std::uint64_t at(const std::array<std::uint32_t, kRegionLoops>& x) const {
      return std::uint64_t{offset} + std::uint64_t{stride[0]} * x[0] + std::uint64_t{stride[1]} * x[1] + std::uint64_t{stride[2]} * x[2];
    }
  };
  std::array<std::uint32_t, kRegionLoops> size{1, 1, 1};  // the last one is the innermost loop; none of them is 0
  Side src, dst;

  std::uint64_t elements() const { return std::uint64_t{size[0]} * size[1] * size[2]; }
  // The largest element that a side touches.
  std::uint64_t last(const Side& side) const { return side.at({size[0] - 1, size[1] - 1, size[2] - 1}); }
  friend auto operator<=>(const CopyRegion&, const CopyRegion&) = default;
};

using CopyRegions = std::vector<CopyRegion>;
using CopyRegionList = std::shared_ptr<const CopyRegions>;

inline std::uint64_t elements(const CopyRegions& regions) {
  std::uint64_t sum = 0;
  for (const CopyRegion& region : regions) sum += region.elements();
  return sum;
}

}  // namespace vitro
