#include "engine/ops/scale_rows.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void ScaleRows::check(const Checker& check) const {
  const View& x = check.floats(check.in(0), "x", {0, 0});
  check.floats(check.in(1), "s", {x.shape[0], 1});
  check.float_elements(check.in(2), "w", x.shape[1]);
  check.floats(check.out(), "y", {x.shape[0], x.shape[1]});
}

void ScaleRows::count(Counter& c) const {
  const std::uint64_t n = elements(c.in(0));
  for (std::size_t i = 0; i < 3; ++i) c.read_all(c.in(i));
  c.write_floats(n);
  c.counts.elementwise = work::kNorm / 2 * n;
}

void ScaleRows::reference(Reference& r) const {
  const std::size_t width = columns(r.in(0));
  const Vector weight = r.read(r.in(2), 0, width);
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    const double scale = r.read(r.in(1), row, 1)[0];
    r.write(r.out(), row * width, (r.read(r.in(0), row * width, width) * scale).cwiseProduct(weight));
    r.tally().elementwise += work::kNorm / 2 * width;
  }
}

}  // namespace vitro::ops
