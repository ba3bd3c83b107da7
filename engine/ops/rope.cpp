#include "engine/ops/rope.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Rope::check(const Checker& check) const {
  const View& x = check.floats(check.in(0), "x", {0, 0, 0});
  check.floats(check.out(), "y", {x.shape[0], x.shape[1], x.shape[2]});
  check.batch(x.shape[0]);
  if (!(base > 0)) check.fail("parameter base has to be above 0");
  check.range(dims, "rotary dims", 2, x.shape[2]);
  if (dims % 2 != 0) check.fail("parameter rotary dims is odd");
  if (check.call().in.size() > 1) check.float_elements(check.in(1), "frequency divisors", dims / 2);
  check.slice(x.shape[1]);
}

void Rope::count(Counter& c) const {
  const View& x = c.in(0);
  const std::uint64_t pairs = dims / 2, heads = sliced(c.call, x.shape[1]).count;
  if (c.call.in.size() > 1) c.read(c.in(1), 4 * pairs);
  c.read_floats(x, x.shape[0] * heads * x.shape[2]);
  c.write_floats(x.shape[0] * heads * x.shape[2]);
  c.counts.elementwise = x.shape[0] * pairs * (work::kAngle + heads * work::kTurn);
}

void Rope::reference(Reference& r) const {
  const View& out = r.out();
  const std::size_t heads = out.shape[1], dim = out.shape[2];
  const std::uint32_t pairs = dims / 2;
  const bool interleaved = style == RopeStyle::interleaved;
  std::vector<float> cosines(pairs), sines(pairs);
  if (r.call().in.size() > 1) r.touch(r.in(1), Bytes{4} * pairs);
  const Range slice = sliced(r.call(), static_cast<std::uint32_t>(heads));
  for (std::size_t b = 0; b < out.shape[0]; ++b) {
    rope_angles(*this, r.call(), (*r.call().batch)[b].position, cosines.data(), sines.data());
    r.tally().elementwise += work::kAngle * pairs;
    for (std::size_t h = slice.first; h < slice.end(); ++h) {
      Vector x = r.read(r.in(0), (b * heads + h) * dim, dim);
      for (std::uint32_t i = 0; i < pairs; ++i) {
        double& first = x[interleaved ? 2 * i : i];
        double& second = x[interleaved ? 2 * i + 1 : i + pairs];
        const double turned = first * cosines[i] - second * sines[i];
        second = first * sines[i] + second * cosines[i];
        first = turned;
        r.tally().elementwise += work::kTurn;
      }
      r.write(out, (b * heads + h) * dim, x);
    }
  }
}

}  // namespace vitro::ops
