#include "engine/ops/select.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {
namespace {

// The comparison stands where glu multiplies by up.
std::uint64_t work_of_score(const Select& select) { return select.activation ? work::activation(*select.activation) : 1; }

}  // namespace

void Select::check(const Checker& check) const {
  const View& scores = check.floats(check.in(0), "scores", {0, 0});
  if (std::isnan(threshold)) check.fail("parameter threshold is not a number");
  check.slice(scores.shape[1]);
}

void Select::count(Counter& c) const {
  const View& scores = c.in(0);
  const std::uint64_t n = c.chosen_rows(columns(scores)) * scores.shape[0];
  c.read_floats(scores, n);
  c.counts.elementwise = n * work_of_score(*this);
}

Outcome Select::reference(Reference& r) const {
  const std::size_t width = columns(r.in(0));
  ActiveSet active;
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    std::vector<std::uint32_t> ids;
    for_each_run(r.call(), static_cast<std::uint32_t>(width), [&](Range run) {
      for (std::uint32_t n = run.first; n < run.end(); ++n) {
        const double score = r.read(r.in(0), row * width + n, 1)[0];
        r.tally().elementwise += work_of_score(*this);
        if ((activation ? std::abs(activated(*activation, score)) : score) > threshold) ids.push_back(n);
      }
    });
    active.rows.push_back(std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)));
  }
  return active;
}

}  // namespace vitro::ops
