// Rearrangements of a tensor as lists of Regions, and their fusion (MNN-LLM 5.4). A list writes a tensor that the next list reads; fusion
// makes one list of both, so that the tensor between them is neither written nor read.
#pragma once
#include <optional>
#include <span>

#include "engine/ops/region.hpp"

namespace vitro {

// Of a tensor without gaps, the last dimension innermost; dimensions that are not used are 1, in front.
using Extents = std::array<std::uint32_t, kRegionLoops>;

// The Region with as few loops as it takes, in the order of what it writes.
CopyRegions tidied(const CopyRegion& region);

// Each but placed() writes a tensor without gaps.
CopyRegions reshaped(const Extents& x);                                                      // whatever its new extents
CopyRegions transposed(const Extents& x, const std::array<std::uint8_t, kRegionLoops>& axes);  // dimension i of the result is axes[i] of x
CopyRegions sliced(const Extents& x, const Extents& first, const Extents& step, const Extents& count);
CopyRegions gathered(const Extents& x, std::size_t axis, std::span<const std::uint32_t> indices);
// x as a part of a larger tensor, its first element at `at`: a concatenation is one such list for each operand.
CopyRegions placed(const Extents& x, const Extents& whole, const Extents& at);

// One list for two: what `second` reads is taken from where `first` reads it. The rules, loop by loop: a loop of `second` that leaves a
// loop of `first` is tiled by it, cut at its end, or unrolled; then loops are ordered by what they write, those that continue each other
// become one, and Regions that continue each other become one. None: more than kMostRegions would remain, or `second` reads what `first`
// does not write. Elements that nobody reads are not moved. Requires: neither list writes an element twice.
inline constexpr std::size_t kMostRegions = 64;
std::optional<CopyRegions> fused(const CopyRegions& first, const CopyRegions& second);

// As few lists as the rules make of a chain. Their elements together are never more than the chain's.
std::vector<CopyRegions> fused_chain(std::span<const CopyRegions> chain);

// Whether the list moves elements [0, n) to where they already are, so that who reads the result can read the source.
bool is_identity(const CopyRegions& regions, std::uint64_t n);

}  // namespace vitro
