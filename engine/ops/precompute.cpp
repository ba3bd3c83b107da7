#include "engine/ops/precompute.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Precompute::check(const Checker& check) const { check.floats(check.in(0), "x", {0, 0}); }

void Precompute::count(Counter& c) const {
  c.read_all(c.in(0));
  c.counts.elementwise = work::kTable * elements(c.in(0));
}

void Precompute::reference(Reference& r) const {
  r.touch(r.in(0), view_bytes(r.in(0)));
  r.tally().elementwise += work::kTable * elements(r.in(0));
}

}  // namespace vitro::ops
