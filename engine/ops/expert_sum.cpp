#include "engine/ops/expert_sum.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void ExpertSum::check(const Checker& check) const {
  const View& partials = check.floats(check.in(0), "partials", {0, 0});
  const View& out = check.floats(check.out(), "y", {0, partials.shape[1]});
  check.indices(check.in(1), "sources", {out.shape[0], 0});
  check.floats(check.in(2), "weights", {out.shape[0], check.in(1).shape[1]});
  check.slice(partials.shape[1]);
}

void ExpertSum::count(Counter& c) const {
  const std::uint64_t rows = c.out().shape[0], k = columns(c.in(1)), n = sliced(c.call, columns(c.in(0))).count;
  c.read_floats(c.in(0), rows * k * n);
  c.read_all(c.in(1));
  c.read_all(c.in(2));
  c.write_floats(rows * n);
  c.counts.elementwise = 2 * rows * k * n;
}

void ExpertSum::reference(Reference& r) const {
  const std::size_t width = columns(r.out()), k = columns(r.in(1));
  const Range slice = sliced(r.call(), static_cast<std::uint32_t>(width));
  for (std::size_t b = 0; b < r.out().shape[0]; ++b) {
    Vector sum = Vector::Zero(slice.count);
    for (std::size_t j = 0; j < k; ++j) {
      const double weight = r.read(r.in(2), b * k + j, 1)[0];
      sum += weight * r.read(r.in(0), r.index(r.in(1), b * k + j, r.in(0).shape[0]) * width + slice.first, slice.count);
      r.tally().elementwise += 2 * slice.count;
    }
    r.write(r.out(), b * width + slice.first, sum);
  }
}

}  // namespace vitro::ops
