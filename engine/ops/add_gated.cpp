#include "engine/ops/add_gated.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void AddGated::check(const Checker& check) const {
  const View& a = check.floats(check.in(0), "a", {0, 0});
  check.floats(check.in(1), "b", {a.shape[0], a.shape[1]});
  const View& x = check.floats(check.in(kGateInput), "x", {a.shape[0], 0});
  check.float_elements(check.in(3), "w", x.shape[1]);
  check.floats(check.out(), "y", {a.shape[0], a.shape[1]});
  check.slice(a.shape[1]);
}

void AddGated::count(Counter& c) const {
  const std::uint64_t rows = c.in(0).shape[0], n = rows * sliced(c.call, columns(c.in(0))).count;
  c.read_floats(c.in(0), n);
  c.read_floats(c.in(1), n);
  c.read_all(c.in(kGateInput));
  c.read_all(c.in(3));
  c.write_floats(n);
  c.counts.elementwise = 2 * n + 2 * elements(c.in(kGateInput)) + work::kTranscendental * rows;
}

void AddGated::reference(Reference& r) const {
  const std::size_t width = columns(r.out()), inputs = columns(r.in(kGateInput));
  const Range slice = sliced(r.call(), static_cast<std::uint32_t>(width));
  const Vector w = r.read(r.in(3), 0, inputs);
  for (std::size_t row = 0; row < r.out().shape[0]; ++row) {
    const double gate = 1 / (1 + std::exp(-w.dot(r.read(r.in(kGateInput), row * inputs, inputs))));
    const std::size_t at = row * width + slice.first;
    r.write(r.out(), at, r.read(r.in(0), at, slice.count) + gate * r.read(r.in(1), at, slice.count));
    r.tally().elementwise += 2 * slice.count + 2 * inputs + work::kTranscendental;
  }
}

}  // namespace vitro::ops
