#include "engine/ops/route.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

void Route::check(const Checker& check) const {
  const View& logits = check.floats(check.in(0), "logits", {0, 0});
  check.range(k, "k", 1, logits.shape[1]);
}

void Route::count(Counter& c) const {
  const std::uint64_t rows = c.in(0).shape[0], experts = columns(c.in(0));
  c.read_all(c.in(0));
  c.counts.elementwise = rows * (experts + work::kSoftmax * (renormalise ? k : experts));
}

Outcome Route::reference(Reference& r) const {
  const std::size_t experts = columns(r.in(0));
  std::vector<ExpertChoice> choices;
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    const Vector logits = r.read(r.in(0), row * experts, experts);
    r.tally().elementwise += experts;
    std::vector<std::uint32_t> ids = by_descending(logits);
    ids.resize(k);
    Vector chosen(k);
    for (std::size_t j = 0; j < k; ++j) chosen[static_cast<Eigen::Index>(j)] = logits[ids[j]];
    const Vector weights = r.softmax(renormalise ? chosen : logits);
    ExpertChoice choice;
    for (std::size_t j = 0; j < k; ++j) {
      choice.ids.push_back(static_cast<std::uint16_t>(ids[j]));
      choice.weights.push_back(static_cast<float>(weights[renormalise ? j : ids[j]]));
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace vitro::ops
