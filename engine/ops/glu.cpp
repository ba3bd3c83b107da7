#include "engine/ops/glu.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Glu::check(const Checker& check) const { check.two_alike(); }

void Glu::count(Counter& c) const {
  const std::uint64_t n = c.chosen_rows(columns(c.in(0))) * c.in(0).shape[0];
  c.read_floats(c.in(0), n);
  c.read_floats(c.in(1), n);
  c.write_floats(n);
  c.counts.elementwise = n * work::activation(activation);
}

Outcome Glu::reference(Reference& r) const {
  const std::size_t rows = r.out().shape[0], width = columns(r.out());
  ActiveSet active;
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::uint32_t> ids;
    for_each_run(r.call(), static_cast<std::uint32_t>(width), [&](Range run) {
      const std::size_t at = row * width + run.first;
      const Vector gate = r.read(r.in(0), at, run.count).unaryExpr([&](double g) { return activated(activation, g); });
      r.write(r.out(), at, gate.cwiseProduct(r.read(r.in(1), at, run.count)));
      r.tally().elementwise += work::activation(activation) * run.count;
      for (std::uint32_t i = 0; i < run.count; ++i) {
        if (static_cast<float>(gate[i]) != 0) ids.push_back(run.first + i);
      }
    });
    active.rows.push_back(std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)));
  }
  if (!report_active) return {};
  return active;
}

}  // namespace vitro::ops
