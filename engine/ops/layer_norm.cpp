#include "engine/ops/layer_norm.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void LayerNorm::check(const Checker& check) const {
  const View& x = check.floats(check.in(0), "x", {0, 0});
  check.float_elements(check.in(1), "weight", x.shape[1]);
  check.float_elements(check.in(2), "bias", x.shape[1]);
  check.floats(check.out(), "y", {x.shape[0], x.shape[1]});
}

void LayerNorm::count(Counter& c) const {
  const std::uint64_t n = elements(c.in(0));
  for (std::size_t i = 0; i < 3; ++i) c.read_all(c.in(i));
  c.write_floats(n);
  c.counts.elementwise = work::kLayerNorm * n;
}

void LayerNorm::reference(Reference& r) const {
  const std::size_t width = columns(r.in(0));
  const Vector weight = r.read(r.in(1), 0, width), bias = r.read(r.in(2), 0, width);
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    const Vector x = r.read(r.in(0), row * width, width);
    const Vector centred = x.array() - x.mean();
    const double scale = 1 / std::sqrt(centred.squaredNorm() / static_cast<double>(width) + double{eps});
    r.write(r.out(), row * width, (centred * scale).cwiseProduct(weight) + bias);
    r.tally().elementwise += work::kLayerNorm * width;
  }
}

}  // namespace vitro::ops
