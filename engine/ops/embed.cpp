#include "engine/ops/embed.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Embed::check(const Checker& check) const {
  const View& table = check.view(check.in(0), "table", {0, 0});
  if (!table.format.is_for_weights()) check.fail("table", table, "expected weights");
  const View& out = check.floats(check.out(), "y", {0, table.shape[1]});
  check.index_elements(check.in(1), "tokens", out.shape[0]);
}

void Embed::count(Counter& c) const {
  const std::uint64_t rows = c.out().shape[0], width = c.in(0).shape[1];
  c.read(c.in(0), rows * row_bytes(c.in(0).format, width));
  c.read(c.in(1), 4 * rows);
  c.write_floats(rows * width);
  if (c.in(0).format != Format::f32) c.counts.conversions = rows * width;
  c.counts.row_runs = static_cast<std::uint32_t>(rows);
}

void Embed::reference(Reference& r) const {
  const std::size_t width = columns(r.out());
  for (std::size_t b = 0; b < r.out().shape[0]; ++b) {
    const std::size_t row = r.index(r.in(1), b, r.in(0).shape[0]);
    r.write(r.out(), b * width, r.read_at(r.in(0), row * row_bytes(r.in(0).format, width), width));
    if (r.in(0).format != Format::f32) r.tally().conversions += width;
    ++r.tally().row_runs;
  }
}

}  // namespace vitro::ops
