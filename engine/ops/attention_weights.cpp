#include "engine/ops/attention_weights.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/kv_part.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void AttentionWeights::check(const Checker& check) const {
  const View& s = check.floats(check.in(0), "s", {0, 0, 0});
  check.batch(s.shape[0]);
  check.floats(check.out(), "e", {s.shape[0], s.shape[1], s.shape[2]});
  check_room(check, s, "s", window);
  check.slice(s.shape[1]);
}

void AttentionWeights::count(Counter& c) const {
  std::uint64_t scores = 0;
  for (const SeqPos& row : *c.call.batch) scores += visible(row.position, window).count;
  scores *= sliced(c.call, c.in(0).shape[1]).count;
  c.read_floats(c.in(0), scores);
  c.write_floats(scores);
  c.counts.elementwise = work::kExponentials * scores;
}

void AttentionWeights::reference(Reference& r) const {
  const std::size_t heads = r.in(0).shape[1], room = r.in(0).shape[2];
  const Range slice = sliced(r.call(), r.in(0).shape[1]);
  for (std::size_t b = 0; b < r.call().batch->size(); ++b) {
    const std::uint32_t seen = visible((*r.call().batch)[b].position, window).count;
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (b * heads + h) * room;
      const Vector s = r.read(r.in(0), at, seen);
      r.write(r.out(), at, (s.array() - s.maxCoeff()).exp());
      r.tally().elementwise += work::kExponentials * seen;
    }
  }
}

}  // namespace vitro::ops
