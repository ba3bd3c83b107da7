#include "engine/ops/inverse_rms.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void InverseRms::check(const Checker& check) const {
  const View& x = check.floats(check.in(0), "x", {0, 0});
  check.floats(check.out(), "y", {x.shape[0], 1});
}

void InverseRms::count(Counter& c) const {
  const std::uint64_t n = elements(c.in(0));
  c.read_floats(c.in(0), n);
  c.write_floats(c.in(0).shape[0]);
  c.counts.elementwise = work::kNorm / 2 * n;
}

void InverseRms::reference(Reference& r) const {
  const std::size_t width = columns(r.in(0));
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    const double mean = r.read(r.in(0), row * width, width).squaredNorm() / static_cast<double>(width);
    r.write(r.out(), row, Vector::Constant(1, 1 / std::sqrt(mean + double{eps})));
    r.tally().elementwise += work::kNorm / 2 * width;
  }
}

}  // namespace vitro::ops
