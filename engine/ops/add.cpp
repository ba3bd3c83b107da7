#include "engine/ops/add.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Add::check(const Checker& check) const { check.two_alike(); }

void Add::count(Counter& c) const {
  const std::uint64_t n = std::uint64_t{c.in(0).shape[0]} * sliced(c.call, columns(c.in(0))).count;
  c.read_floats(c.in(0), n);
  c.read_floats(c.in(1), n);
  c.write_floats(n);
  c.counts.elementwise = n;
}

void Add::reference(Reference& r) const {
  const std::size_t width = columns(r.out());
  const Range slice = sliced(r.call(), static_cast<std::uint32_t>(width));
  for (std::size_t row = 0; row < r.out().shape[0]; ++row) {
    const std::size_t at = row * width + slice.first;
    r.write(r.out(), at, r.read(r.in(0), at, slice.count) + r.read(r.in(1), at, slice.count));
    r.tally().elementwise += slice.count;
  }
}

}  // namespace vitro::ops
