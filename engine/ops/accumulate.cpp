#include "engine/ops/accumulate.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::ops {

void Accumulate::check(const Checker& check) const {
  const View& w = check.view(check.in(0), "W", {0, 0});
  if (w.format == Format::index32) check.fail("W", w, "expected weights");
  const View& h = check.floats(check.in(1), "h", {0, w.shape[0]});
  check.scales(w);
  check.floats(check.out(), "y", {h.shape[0], w.shape[1]});
  check.slice(w.shape[0]);
}

void Accumulate::count(Counter& c) const {
  const View &w = c.in(0), &h = c.in(1);
  const std::uint64_t width = w.shape[1], batch = h.shape[0], rows = c.weight_rows();
  c.read_floats(h, rows * batch);
  if (continues) c.read_floats(c.out(), batch * width);
  c.write_floats(batch * width);
  c.counts.macs = rows * width * batch;
  if (variant::adds_in_int8(c.call.variant, w.format)) {
    c.counts.conversions = rows * batch * (width / kBlock);  // one coefficient for each block of a row
  } else if (w.format != Format::f32) {
    c.counts.conversions = rows * width;
  }
}

void Accumulate::reference(Reference& r) const {
  const std::size_t n = r.in(0).shape[0], width = r.in(0).shape[1], batch = r.in(1).shape[0];
  Eigen::MatrixXd y = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(width), static_cast<Eigen::Index>(batch));
  if (continues) {
    for (std::size_t b = 0; b < batch; ++b) y.col(static_cast<Eigen::Index>(b)) = r.read(r.out(), b * width, width);
  }
  r.for_each_weight_row([&](std::size_t row, const Vector& w) {
    const bool int8 = variant::adds_in_int8(r.call().variant, r.in(0).format);
    if (r.in(0).format != Format::f32) r.tally().conversions += int8 ? batch * (width / kBlock) : width;
    for (std::size_t b = 0; b < batch; ++b) {
      r.tally().macs += width;
      const double h = r.read(r.in(1), b * n + row, 1)[0];
      if (h != 0) y.col(static_cast<Eigen::Index>(b)) += h * w;
    }
  });
  for (std::size_t b = 0; b < batch; ++b) r.write(r.out(), b * width, y.col(static_cast<Eigen::Index>(b)));
}

}  // namespace vitro::ops
