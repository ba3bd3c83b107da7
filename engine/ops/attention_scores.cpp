#include "engine/ops/attention_scores.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/kv_part.hpp"
#include "engine/ops/reference.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::ops {

void AttentionScores::check(const Checker& check) const {
  const View &q = check.in(0), &s = check.out();
  check_kv_part(check, s, "s", window, pool_layers);
  check.float_elements(q, "q", std::uint64_t{s.shape[0]} * s.shape[1] * check.in(1).shape[2]);
}

void AttentionScores::count(Counter& c) const {
  const KvPartWork work = count_kv_part(c, 0, c.out(), window);
  const std::uint64_t dim = c.in(1).shape[2];
  c.counts.elementwise = scales_query ? work.queries * dim : work.scores;
  c.read_floats(c.in(0), work.queries * dim);
  c.write_floats(work.scores);
}

void AttentionScores::reference(Reference& r) const {
  const View &q = r.in(0), &s = r.out();
  const std::size_t heads = s.shape[1], room = s.shape[2];
  for_each_kv_head(r, 0, s, window, pool_layers, [&](const KvHead& head, const Eigen::MatrixXd& keys) {
    const auto dim = static_cast<std::size_t>(keys.rows());
    for (std::uint32_t h = head.first; h < head.first + head.group; ++h) {
      Vector query = r.read(q, (head.row * heads + h) * dim, dim) * (scales_query ? double{scale} : 1.0);
      if (q.format == Format::f16) {
        query = query.unaryExpr([](double v) { return double{half_to_float(float_to_half(static_cast<float>(v)))}; }).eval();
      }
      r.write(s, (head.row * heads + h) * room, keys.transpose() * query * (scales_query ? 1.0 : double{scale}));
      r.tally().elementwise += scales_query ? dim : static_cast<std::size_t>(keys.cols());
    }
  });
}

}  // namespace vitro::ops
