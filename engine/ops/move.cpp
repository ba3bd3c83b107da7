#include "engine/ops/move.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Move::check(const Checker& check) const {
  const View &x = check.in(0), &y = check.out();
  check.float_elements(x, "x", elements(x));
  check.float_elements(y, "y", elements(y));
  if (x.format != y.format) check.fail("y", y, "expected the format of x");
  if (x.data() != nullptr && overlap(x, y)) check.fail("y", y, "it shares memory with x");
  const CopyRegionList& regions = check.call().regions;
  if (regions == nullptr) check.fail("has no regions");
  for (const CopyRegion& region : *regions) {
    if (region.elements() == 0) check.fail("a region has a size of 0");
    if (region.last(region.src) >= elements(x)) check.fail("x", x, "a region reads element " + std::to_string(region.last(region.src)));
    if (region.last(region.dst) >= elements(y)) check.fail("y", y, "a region writes element " + std::to_string(region.last(region.dst)));
  }
}

void Move::count(Counter& c) const {
  const std::uint64_t n = elements(*c.call.regions);
  c.read_floats(c.in(0), n);
  c.write_floats(n);
  c.counts.elementwise = work::kMove * n;
}

void Move::reference(Reference& r) const {
  for (const CopyRegion& region : *r.call().regions) {
    for (std::uint32_t i = 0; i < region.size[0]; ++i) {
      for (std::uint32_t j = 0; j < region.size[1]; ++j) {
        for (std::uint32_t k = 0; k < region.size[2]; ++k) {
          r.write(r.out(), region.dst.at({i, j, k}), r.read(r.in(0), region.src.at({i, j, k}), 1));
          r.tally().elementwise += work::kMove;
        }
      }
    }
  }
}

}  // namespace vitro::ops
