#include "engine/ops/gather.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Gather::check(const Checker& check) const {
  const View& x = check.floats(check.in(0), "x", {0, 0});
  const View& out = check.floats(check.out(), "y", {0, x.shape[1]});
  if (x.format != out.format) check.fail("y", out, "expected the format of x");
  check.index_elements(check.in(1), "indices", out.shape[0]);
}

void Gather::count(Counter& c) const {
  c.read_floats(c.in(0), elements(c.out()));
  c.read(c.in(1), Bytes{4} * c.out().shape[0]);
  c.write_floats(elements(c.out()));
}

void Gather::reference(Reference& r) const {
  const std::size_t width = columns(r.out());
  for (std::size_t s = 0; s < r.out().shape[0]; ++s) {
    r.write(r.out(), s * width, r.read(r.in(0), r.index(r.in(1), s, r.in(0).shape[0]) * width, width));
  }
}

}  // namespace vitro::ops
