#include "engine/ops/attention_values.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/kv_part.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void AttentionValues::check(const Checker& check) const {
  const View &e = check.in(0), &y = check.out();
  check_kv_part(check, e, "e", window, pool_layers);
  check.float_elements(y, "y", std::uint64_t{e.shape[0]} * e.shape[1] * check.in(1).shape[2]);
}

void AttentionValues::count(Counter& c) const {
  const KvPartWork work = count_kv_part(c, 1, c.in(0), window);
  const std::uint64_t dim = c.in(1).shape[2];
  c.counts.elementwise = work.scores + work.queries * dim;  // the sum, and the division by it
  c.read_floats(c.in(0), work.scores);
  c.write_floats(work.queries * dim);
}

void AttentionValues::reference(Reference& r) const {
  const View& e = r.in(0);
  const std::size_t heads = e.shape[1], room = e.shape[2];
  for_each_kv_head(r, 1, e, window, pool_layers, [&](const KvHead& head, const Eigen::MatrixXd& values) {
    const auto dim = static_cast<std::size_t>(values.rows()), seen = static_cast<std::size_t>(values.cols());
    for (std::uint32_t h = head.first; h < head.first + head.group; ++h) {
      const Vector weights = r.read(e, (head.row * heads + h) * room, seen);
      r.write(r.out(), (head.row * heads + h) * dim, values * weights / weights.sum());
      r.tally().elementwise += seen + dim;
    }
  });
}

}  // namespace vitro::ops
