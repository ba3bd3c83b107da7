// Parts of a pass of the NPU's plans.
#pragma once
#include <cmath>

#include "hw_models/npu/plan.hpp"

namespace vitro::hw {

inline Bytes share(Bytes bytes, std::uint64_t part, std::uint64_t whole) {
  return static_cast<Bytes>(std::llround(static_cast<double>(bytes) * static_cast<double>(part) / static_cast<double>(whole)));
}

// `all` in so many groups of equal work; the last one has what a division of bytes leaves. rows: runs of bytes of each.
inline Pass spread(const TileGroup& all, std::uint32_t groups, double rows) {
  const TileGroup full{all.in / groups, all.out / groups, rows, all.vector / groups, all.matrix / groups};
  TileGroup last = full;
  last.in = all.in - (groups - 1) * full.in;
  last.out = all.out - (groups - 1) * full.out;
  return {0, 0, groups, full, last};
}

// A result that is small is collected and written once, behind the last group.
inline void write_once(Pass& pass, Bytes most) {
  const Bytes all = (pass.groups - 1) * pass.full.out + pass.last.out;
  if (pass.groups == 1 || all > most) return;
  pass.full.out = 0;
  pass.last.out = all;
}

}  // namespace vitro::hw
