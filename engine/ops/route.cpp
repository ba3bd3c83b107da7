#include "engine/ops/route.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {

namespace {

std::uint64_t weighed(const Route& route, std::uint64_t experts) {
  if (route.scores == Scores::sparse_mixer) return route.k * experts;
  return route.renormalise ? route.k : experts;
}

// Of the choice `ids[j]`, the others before it being out.
double mixer_weight(const Vector& logits, const std::vector<std::uint32_t>& ids, std::size_t j) {
  const double m = logits[ids[j]];
  double sum = 0;
  for (std::size_t i = j; i < ids.size(); ++i) {
    if (competes(logits[ids[i]], m)) sum += std::exp(logits[ids[i]] - m);
  }
  return 1 / sum;
}

}  // namespace

void Route::check(const Checker& check) const {
  const View& logits = check.floats(check.in(0), "logits", {0, 0});
  check.range(k, "k", 1, logits.shape[1]);
  if (!(scale > 0)) check.fail("parameter scale has to be above 0");
  if (renormalise && scores == Scores::sparse_mixer) check.fail("weights of a sparse mixer are not renormalised");
}

void Route::count(Counter& c) const {
  const std::uint64_t rows = c.in(0).shape[0], experts = columns(c.in(0));
  c.read_all(c.in(0));
  c.counts.elementwise = rows * (experts + work::kSoftmax * weighed(*this, experts));
}

Outcome Route::reference(Reference& r) const {
  const std::size_t experts = columns(r.in(0));
  const bool mixes = scores == Scores::sparse_mixer;
  std::vector<ExpertChoice> choices;
  for (std::size_t row = 0; row < r.in(0).shape[0]; ++row) {
    const Vector logits = r.read(r.in(0), row * experts, experts);
    r.tally().elementwise += experts;
    const std::vector<std::uint32_t> ids = by_descending(logits);
    Vector chosen(k);
    for (std::size_t j = 0; j < k; ++j) chosen[static_cast<Eigen::Index>(j)] = logits[ids[j]];
    if (mixes) r.tally().elementwise += work::kSoftmax * k * experts;
    const Vector weights = mixes ? chosen : r.softmax(renormalise ? chosen : logits);
    ExpertChoice choice;
    for (std::size_t j = 0; j < k; ++j) {
      choice.ids.push_back(static_cast<std::uint16_t>(ids[j]));
      const double weight = mixes ? mixer_weight(logits, ids, j) : weights[renormalise ? j : ids[j]];
      choice.weights.push_back(static_cast<float>(weight * double{scale}));
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace vitro::ops
