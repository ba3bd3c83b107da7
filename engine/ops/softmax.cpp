#include "engine/ops/softmax.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro {

std::string_view to_string(Exponential exponential) {
  switch (exponential) {
    case Exponential::table:
      return "table";
    case Exponential::f16:
      return "f16";
    case Exponential::f32:
      return "f32";
  }
  return "?";
}

}  // namespace vitro

namespace vitro::ops {

void Softmax::check(const Checker& check) const {
  const View& x = check.floats(check.in(0), "x", {0, 0});
  check.floats(check.out(), "out", {x.shape[0], x.shape[1]});
  check.range(times, "times", 1, 1 << 20);
}

void Softmax::count(Counter& c) const {
  c.read_all(c.in(0));
  c.write_floats(elements(c.in(0)));
  c.counts.elementwise = times * work::kSoftmax * elements(c.in(0));
}

void Softmax::reference(Reference& r) const {
  const std::size_t width = columns(r.in(0));
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    r.write(r.out(), row * width, r.softmax(r.read(r.in(0), row * width, width)));
  }
  r.tally().elementwise *= times;
}

}  // namespace vitro::ops
