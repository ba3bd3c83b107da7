#include "engine/ops/add_product.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void AddProduct::check(const Checker& check) const {
  if (!std::isfinite(scale)) check.fail("parameter scale is not a finite number");
  const View& w = check.in(0);
  if (!w.format.is_for_weights()) check.fail("W", w, "expected weights");
  check.view(w, "W", {0, 0});
  const View& x = check.floats(check.in(1), "x", {0, w.shape[1]});
  check.floats(check.out(), "y", {x.shape[0], w.shape[0]});
  check.slice(w.shape[0]);
}

void AddProduct::count(Counter& c) const {
  const View &w = c.in(0), &x = c.in(1);
  const std::uint64_t k = w.shape[1], batch = x.shape[0], rows = c.weight_rows();
  c.read_all(x);
  if (continues) c.read_floats(c.out(), rows * batch);
  c.write_floats(rows * batch);
  c.counts.macs = rows * k * batch;
  c.counts.elementwise = rows * batch;
  if (w.format != Format::f32) c.counts.conversions = rows * k;
}

void AddProduct::reference(Reference& r) const {
  const std::size_t n = r.in(0).shape[0], k = r.in(0).shape[1], batch = r.in(1).shape[0];
  Eigen::MatrixXd x(k, batch);
  for (std::size_t b = 0; b < batch; ++b) x.col(static_cast<Eigen::Index>(b)) = r.read(r.in(1), b * k, k);
  r.for_each_weight_row([&](std::size_t row, const Vector& w) {
    if (r.in(0).format != Format::f32) r.tally().conversions += k;
    for (std::size_t b = 0; b < batch; ++b) {
      const double before = continues ? r.read(r.out(), b * n + row, 1)[0] : 0;
      r.write(r.out(), b * n + row, Vector::Constant(1, before + double{scale} * w.dot(x.col(static_cast<Eigen::Index>(b)))));
      r.tally().macs += k;
      ++r.tally().elementwise;
    }
  });
}

}  // namespace vitro::ops
