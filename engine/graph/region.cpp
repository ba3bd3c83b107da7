#include "engine/graph/region.hpp"

#include <algorithm>
#include <numeric>

namespace vitro {
namespace {

// A loop over what a list reads (`from`) and writes (`to`).
struct Loop {
  std::uint64_t size = 1, from = 0, to = 0;
};
struct Nest {
  std::uint64_t from = 0, to = 0;  // of the first element
  std::vector<Loop> loops;         // the last one innermost
};

Nest nest_of(const CopyRegion& region) {
  Nest nest{region.src.offset, region.dst.offset, {}};
  for (std::size_t i = 0; i < kRegionLoops; ++i) {
    if (region.size[i] > 1) nest.loops.push_back({region.size[i], region.src.stride[i], region.dst.stride[i]});
  }
  return nest;
}

// Interchange and fusing: the order of what is written, and no two loops that are one.
void tidy(std::vector<Loop>& loops) {
  std::erase_if(loops, [](const Loop& loop) { return loop.size == 1; });
  std::ranges::stable_sort(loops, [](const Loop& a, const Loop& b) { return a.to > b.to; });
  for (std::size_t i = 1; i < loops.size();) {
    Loop &outer = loops[i - 1], &inner = loops[i];
    if (outer.from != inner.from * inner.size || outer.to != inner.to * inner.size) {
      ++i;
      continue;
    }
    inner.size *= outer.size;
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
}

// Unrolls the shortest loops where there are more than a Region has.
void append(Nest nest, CopyRegions& out) {
  tidy(nest.loops);
  if (nest.loops.size() > kRegionLoops) {
    const auto shortest = std::ranges::min_element(nest.loops, {}, &Loop::size);
    const Loop loop = *shortest;
    nest.loops.erase(shortest);
    for (std::uint64_t i = 0; i < loop.size; ++i, nest.from += loop.from, nest.to += loop.to) append(nest, out);
    return;
  }
  CopyRegion region;
  region.src.offset = static_cast<std::uint32_t>(nest.from);
  region.dst.offset = static_cast<std::uint32_t>(nest.to);
  for (std::size_t i = 0; i < nest.loops.size(); ++i) {
    const std::size_t at = kRegionLoops - nest.loops.size() + i;
    region.size[at] = static_cast<std::uint32_t>(nest.loops[i].size);
    region.src.stride[at] = static_cast<std::uint32_t>(nest.loops[i].from);
    region.dst.stride[at] = static_cast<std::uint32_t>(nest.loops[i].to);
  }
  out.push_back(region);
}

// The Region of both, where b continues a in one loop, or is the second round of a loop that a lacks.
std::optional<CopyRegion> joined(const CopyRegion& a, const CopyRegion& b) {
  if (b.src.offset < a.src.offset || b.dst.offset < a.dst.offset) return {};
  const std::uint32_t from = b.src.offset - a.src.offset, to = b.dst.offset - a.dst.offset;
  std::optional<std::size_t> free;
  for (std::size_t i = 0; i < kRegionLoops; ++i) {
    CopyRegion longer = a, probe = b;
    longer.size[i] = probe.size[i] = 1;
    const CopyRegion& has = a.size[i] > 1 ? a : b;
    longer.src = {0, a.src.stride}, longer.dst = {0, a.dst.stride};
    probe.src = {0, b.src.stride}, probe.dst = {0, b.dst.stride};
    longer.src.stride[i] = probe.src.stride[i] = longer.dst.stride[i] = probe.dst.stride[i] = 0;
    if (longer != probe) continue;
    if (a.size[i] == 1 && b.size[i] == 1) {
      if (!free) free = i;
      continue;
    }
    if (a.size[i] > 1 && b.size[i] > 1 && (a.src.stride[i] != b.src.stride[i] || a.dst.stride[i] != b.dst.stride[i])) continue;
    if (from != a.size[i] * has.src.stride[i] || to != a.size[i] * has.dst.stride[i]) continue;
    CopyRegion both = a;
    both.size[i] += b.size[i];
    both.src.stride[i] = has.src.stride[i], both.dst.stride[i] = has.dst.stride[i];
    return both;
  }
  if (!free || to == 0) return {};
  CopyRegion both = a;
  both.size[*free] = 2;
  both.src.stride[*free] = from, both.dst.stride[*free] = to;
  return both;
}

void join(CopyRegions& regions) {
  for (std::size_t i = 1; i < regions.size();) {
    const std::optional<CopyRegion> both = joined(regions[i - 1], regions[i]);
    if (!both) {
      ++i;
      continue;
    }
    CopyRegions tidied;
    append(nest_of(*both), tidied);
    regions[i - 1] = tidied.front();
    regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i));
    if (i > 1) --i;
  }
}

// A Region of the first list as digits of what it writes: each address in it is offset + sum of digit * stride, in one way alone.
class Box {
 public:
  explicit Box(const CopyRegion& region) : nest_(nest_of(region)) { tidy(nest_.loops); }

  bool nested() const {
    std::uint64_t inside = 0;
    for (std::size_t i = nest_.loops.size(); i-- > 0;) {
      if (nest_.loops[i].to <= inside) return false;
      inside += nest_.loops[i].to * (nest_.loops[i].size - 1);
    }
    return true;
  }
  std::size_t digits() const { return nest_.loops.size(); }
  const Loop& loop(std::size_t digit) const { return nest_.loops[digit]; }

  // Digits of an address. None: it is not in the box.
  std::optional<std::vector<std::uint64_t>> find(std::uint64_t address) const {
    if (address < nest_.to) return {};
    std::optional<std::vector<std::uint64_t>> digits = split(address - nest_.to);
    for (std::size_t i = 0; digits && i < digits->size(); ++i) {
      if ((*digits)[i] >= nest_.loops[i].size) return {};
    }
    return digits;
  }
  std::optional<std::vector<std::uint64_t>> split(std::uint64_t distance) const {
    std::vector<std::uint64_t> digits;
    for (const Loop& loop : nest_.loops) {
      digits.push_back(distance / loop.to);
      distance %= loop.to;
    }
    if (distance != 0) return {};
    return digits;
  }
  std::uint64_t source(const std::vector<std::uint64_t>& digits, std::uint64_t offset) const {
    for (std::size_t i = 0; i < digits.size(); ++i) offset += digits[i] * nest_.loops[i].from;
    return offset;
  }
  std::uint64_t source(const std::vector<std::uint64_t>& digits) const { return source(digits, nest_.from); }

 private:
  Nest nest_;
};

class Fusion {
 public:
  explicit Fusion(const CopyRegions& first) {
    for (const CopyRegion& region : first) boxes_.emplace_back(region);
  }

  std::optional<CopyRegions> of(const CopyRegions& second) {
    if (!std::ranges::all_of(boxes_, &Box::nested)) return {};
    for (const CopyRegion& region : second) {
      if (!resolve(nest_of(region))) return {};
    }
    join(out_);
    if (out_.size() > kMostRegions) return {};
    return std::move(out_);
  }

 private:
  bool resolve(Nest nest) {
    if (out_.size() > kPatience) return false;
    for (const Box& box : boxes_) {
      if (const auto at = box.find(nest.from)) return resolve_in(box, *at, std::move(nest));
    }
    return false;
  }

  // Inner loops first: as long as they stay within the box they are loops over what the first list reads.
  bool resolve_in(const Box& box, const std::vector<std::uint64_t>& first, Nest nest) {
    std::vector<std::uint64_t> reached = first;
    Nest whole{box.source(first), nest.to, nest.loops};
    for (std::size_t l = nest.loops.size(); l-- > 0;) {
      const Loop loop = nest.loops[l];
      const auto step = box.split(loop.from);
      std::uint64_t fits = step ? loop.size : 1;
      std::size_t full = 0;  // the digit that ends first
      for (std::size_t d = 0; step && d < box.digits(); ++d) {
        if ((*step)[d] == 0) continue;
        const std::uint64_t rounds = (box.loop(d).size - 1 - reached[d]) / (*step)[d] + 1;
        if (rounds < fits) fits = rounds, full = d;
      }
      if (fits < loop.size) return resolve_broken(std::move(nest), l, fits, step && first[full] == 0);
      for (std::size_t d = 0; d < box.digits(); ++d) reached[d] += (*step)[d] * (loop.size - 1);
      whole.loops[l].from = box.source(*step, 0);
    }
    append(std::move(whole), out_);
    return true;
  }

  // Loop l goes on for `fits` rounds. From the box's edge on it is tiled, as far as tiles are full; else the rounds go apart.
  bool resolve_broken(Nest nest, std::size_t l, std::uint64_t fits, bool from_edge) {
    const Loop loop = nest.loops[l];
    if (fits > 1 && from_edge && loop.size >= 2 * fits) {
      if (loop.size % fits != 0) return resolve_cut(std::move(nest), l, loop.size - loop.size % fits);
      nest.loops[l] = {loop.size / fits, loop.from * fits, loop.to * fits};
      nest.loops.insert(nest.loops.begin() + static_cast<std::ptrdiff_t>(l + 1), {fits, loop.from, loop.to});
      return resolve(std::move(nest));
    }
    return resolve_cut(std::move(nest), l, fits);
  }

  bool resolve_cut(Nest nest, std::size_t l, std::uint64_t rounds) {
    Nest rest = nest;
    rest.from += rounds * nest.loops[l].from, rest.to += rounds * nest.loops[l].to;
    rest.loops[l].size -= rounds;
    nest.loops[l].size = rounds;
    for (Nest* part : {&nest, &rest}) {
      std::erase_if(part->loops, [](const Loop& loop) { return loop.size == 1; });
    }
    return resolve(std::move(nest)) && resolve(std::move(rest));
  }

  static constexpr std::size_t kPatience = 16 * kMostRegions;  // before Regions are joined
  std::vector<Box> boxes_;
  CopyRegions out_;
};

Extents strides_of(const Extents& x) { return {x[1] * x[2], x[2], 1}; }

}  // namespace

CopyRegions tidied(const CopyRegion& region) {
  CopyRegions out;
  append(nest_of(region), out);
  return out;
}

CopyRegions reshaped(const Extents& x) { return tidied({x, {0, strides_of(x)}, {0, strides_of(x)}}); }

CopyRegions transposed(const Extents& x, const std::array<std::uint8_t, kRegionLoops>& axes) {
  const Extents size{x[axes[0]], x[axes[1]], x[axes[2]]}, from = strides_of(x);
  return tidied({size, {0, {from[axes[0]], from[axes[1]], from[axes[2]]}}, {0, strides_of(size)}});
}

CopyRegions sliced(const Extents& x, const Extents& first, const Extents& step, const Extents& count) {
  const Extents from = strides_of(x);
  const std::uint32_t offset = first[0] * from[0] + first[1] * from[1] + first[2] * from[2];
  return tidied({count, {offset, {step[0] * from[0], step[1] * from[1], step[2] * from[2]}}, {0, strides_of(count)}});
}

CopyRegions gathered(const Extents& x, std::size_t axis, std::span<const std::uint32_t> indices) {
  const Extents from = strides_of(x);
  Extents one = x, whole = x;
  one[axis] = 1;
  whole[axis] = static_cast<std::uint32_t>(indices.size());
  CopyRegions out;
  for (std::uint32_t i = 0; i < indices.size(); ++i) {
    append(nest_of({one, {indices[i] * from[axis], from}, {i * strides_of(whole)[axis], strides_of(whole)}}), out);
  }
  join(out);
  return out;
}

CopyRegions placed(const Extents& x, const Extents& whole, const Extents& at) {
  const Extents to = strides_of(whole);
  return tidied({x, {0, strides_of(x)}, {at[0] * to[0] + at[1] * to[1] + at[2] * to[2], to}});
}

std::optional<CopyRegions> fused(const CopyRegions& first, const CopyRegions& second) { return Fusion(first).of(second); }

std::vector<CopyRegions> fused_chain(std::span<const CopyRegions> chain) {
  std::vector<CopyRegions> lists;
  for (const CopyRegions& next : chain) {
    std::optional<CopyRegions> both;
    if (!lists.empty()) both = fused(lists.back(), next);
    if (both) {
      lists.back() = std::move(*both);
    } else {
      lists.push_back(next);
    }
  }
  return lists;
}

bool is_identity(const CopyRegions& regions, std::uint64_t n) {
  return regions == CopyRegions{{{1, 1, static_cast<std::uint32_t>(n)}, {0, {0, 0, 1}}, {0, {0, 0, 1}}}};
}

}  // namespace vitro
