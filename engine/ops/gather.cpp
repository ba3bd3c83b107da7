#include "engine/ops/gather.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Gather::check(const Checker& check) const {
  const View& x = check.floats(check.in(0), "x", {0, 0});
  const View& out = columns ? check.floats(check.out(), "y", {x.shape[0], 0}) : check.floats(check.out(), "y", {0, x.shape[1]});
  if (x.format != out.format) check.fail("y", out, "expected the format of x");
  if (columns && x.data() != nullptr && overlap(x, out)) check.fail("y", out, "it shares memory with x");
  check.index_elements(check.in(1), "indices", out.shape[columns ? 1 : 0]);
}

void Gather::count(Counter& c) const {
  const std::uint64_t n = elements(c.out());
  c.read_floats(c.in(0), n);
  c.read(c.in(1), Bytes{4} * c.out().shape[columns ? 1 : 0]);
  c.write_floats(n);
  if (columns) c.counts.elementwise = work::kMove * n;  // one by one, where rows are copied whole
}

void Gather::reference(Reference& r) const {
  const std::size_t from = r.in(0).shape[1], to = r.out().shape[1];
  if (!columns) {
    for (std::size_t s = 0; s < r.out().shape[0]; ++s) {
      r.write(r.out(), s * to, r.read(r.in(0), r.index(r.in(1), s, r.in(0).shape[0]) * from, from));
    }
    return;
  }
  for (std::size_t s = 0; s < to; ++s) {
    const std::size_t column = r.index(r.in(1), s, from);
    for (std::size_t row = 0; row < r.out().shape[0]; ++row) {
      r.write(r.out(), row * to + s, r.read(r.in(0), row * from + column, 1));
      r.tally().elementwise += work::kMove;
    }
  }
}

}  // namespace vitro::ops
