#include "engine/ops/reduce.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Reduce::check(const Checker& check) const {
  const View& partials = check.floats(check.in(0), "partials", {0, 0, 0});
  check.floats(check.out(), "y", {partials.shape[1], partials.shape[2]});
  check.slice(partials.shape[2]);
}

void Reduce::count(Counter& c) const {
  const std::uint64_t partials = c.in(0).shape[0], n = std::uint64_t{c.out().shape[0]} * sliced(c.call, columns(c.out())).count;
  c.read_floats(c.in(0), partials * n);
  c.write_floats(n);
  c.counts.elementwise = (partials - 1) * n;
}

void Reduce::reference(Reference& r) const {
  const std::size_t rows = r.out().shape[0], width = columns(r.out());
  const Range slice = sliced(r.call(), static_cast<std::uint32_t>(width));
  for (std::size_t row = 0; row < rows; ++row) {
    Vector sum = Vector::Zero(slice.count);
    for (std::size_t p = 0; p < r.in(0).shape[0]; ++p) {
      sum += r.read(r.in(0), (p * rows + row) * width + slice.first, slice.count);
      if (p > 0) r.tally().elementwise += slice.count;
    }
    r.write(r.out(), row * width + slice.first, sum);
  }
}

}  // namespace vitro::ops
