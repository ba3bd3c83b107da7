#include "engine/ops/rms_norm.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void RmsNorm::check(const Checker& check) const {
  const View &x = check.in(0), &y = check.out();
  check.float_elements(check.in(1), "weight", columns(x));
  if (x.shape[2] == 0) {
    check.floats(x, "x", {0, 0});
    check.floats(y, "y", {x.shape[0], x.shape[1]});
    return check.no_slice();
  }
  check.floats(x, "x", {0, 0, 0});
  check.floats(y, "y", {x.shape[0], x.shape[1], x.shape[2]});
  check.slice(x.shape[1]);
}

void RmsNorm::count(Counter& c) const {
  const View& x = c.in(0);
  const std::uint64_t n = std::uint64_t{x.shape[0]} * sliced_heads(c.call, x).count * columns(x);
  c.read_floats(x, n);
  c.read_all(c.in(1));
  c.write_floats(n);
  c.counts.elementwise = work::kNorm * n;
}

void RmsNorm::reference(Reference& r) const {
  const View& out = r.out();
  const std::size_t width = columns(out);
  const Vector weight = r.read(r.in(1), 0, width);
  const std::size_t heads = out.shape[2] == 0 ? 1 : out.shape[1];
  const Range slice = sliced_heads(r.call(), out);
  for (std::size_t row = 0; row < out.shape[0]; ++row) {
    for (std::size_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (row * heads + h) * width;
      const Vector x = r.read(r.in(0), at, width);
      const double mean = x.squaredNorm() / static_cast<double>(width);
      r.write(out, at, x.cwiseProduct(weight) / std::sqrt(mean + double{eps}));
      r.tally().elementwise += work::kNorm * width;
    }
  }
}

}  // namespace vitro::ops
