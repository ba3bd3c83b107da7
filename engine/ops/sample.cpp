#include "engine/ops/sample.hpp"

#include <algorithm>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Sample::check(const Checker& check) const {
  const View& logits = check.floats(check.in(0), "logits", {0, 0});
  check.float_elements(check.in(1), "uniforms", logits.shape[0]);
  if (!(temperature == 0 || (temperature >= 1e-3f && temperature <= 1e6f))) {
    check.fail("parameter temperature is " + std::to_string(temperature) + " (expected 0, or from 0.001 to 1000000)");
  }
  if (temperature == 0) return;
  if (!(top_p > 0 && top_p <= 1)) check.fail("parameter top_p has to be in (0, 1]");
}

void Sample::count(Counter& c) const {
  const std::uint64_t rows = c.in(0).shape[0], vocab = columns(c.in(0));
  c.read_all(c.in(0));
  c.read(c.in(1), 4 * rows);
  c.counts.elementwise = rows * vocab;
  if (temperature != 0) c.counts.elementwise += rows * work::kSoftmax * (top_k > 0 ? std::min<std::uint64_t>(top_k, vocab) : vocab);
}

Outcome Sample::reference(Reference& r) const {
  const std::size_t vocab = columns(r.in(0));
  TokenChoice choice;
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    const Vector logits = r.read(r.in(0), row * vocab, vocab);
    const double uniform = r.read(r.in(1), row, 1)[0];
    r.tally().elementwise += vocab;
    std::vector<std::uint32_t> ids = by_descending(logits);
    if (temperature == 0) {
      choice.tokens.push_back(static_cast<std::int32_t>(ids[0]));
      continue;
    }
    const bool cut = (top_k > 0 && top_k < vocab) || top_p < 1;
    if (!cut) std::sort(ids.begin(), ids.end());
    if (top_k > 0) ids.resize(std::min<std::size_t>(top_k, vocab));
    Vector scaled(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) scaled[static_cast<Eigen::Index>(i)] = logits[ids[i]] / double{temperature};
    const Vector p = r.softmax(scaled);
    double mass = 0;
    Eigen::Index kept = 0;
    while (kept < p.size() && (kept == 0 || top_p >= 1 || mass < top_p)) mass += p[kept++];
    Eigen::Index chosen = 0;
    for (double sum = p[0]; chosen + 1 < kept && sum <= uniform * mass;) sum += p[++chosen];
    choice.tokens.push_back(static_cast<std::int32_t>(ids[static_cast<std::size_t>(chosen)]));
  }
  return choice;
}

}  // namespace vitro::ops
