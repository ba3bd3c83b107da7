#include <algorithm>
#include <numeric>

#include "engine/ops/reference/call.hpp"

namespace vitro::reference {
namespace {

// The ids by descending value, the lower id first among equals.
std::vector<std::uint32_t> by_descending(const Vector& x) {
  std::vector<std::uint32_t> ids(static_cast<std::size_t>(x.size()));
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(), [&](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
  return ids;
}

}  // namespace

Outcome Reference::route() {
  const std::size_t experts = columns(in(0)), k = static_cast<std::size_t>(call_.params[0]);
  std::vector<ExpertChoice> choices;
  for (std::size_t r = 0; r < in(0).shape[0]; ++r) {
    const Vector logits = read(in(0), r * experts, experts);
    tally_.elementwise += experts;
    std::vector<std::uint32_t> ids = by_descending(logits);
    ids.resize(k);
    Vector chosen(k);
    for (std::size_t j = 0; j < k; ++j) chosen[static_cast<Eigen::Index>(j)] = logits[ids[j]];
    const Vector weights = softmax(call_.params[1] != 0 ? chosen : logits);
    ExpertChoice choice;
    for (std::size_t j = 0; j < k; ++j) {
      choice.ids.push_back(static_cast<std::uint16_t>(ids[j]));
      choice.weights.push_back(static_cast<float>(weights[call_.params[1] != 0 ? j : ids[j]]));
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

Outcome Reference::sample() {
  const std::size_t vocab = columns(in(0));
  TokenChoice choice;
  for (std::size_t r = 0; r < in(0).shape[0]; ++r) {
    const Vector logits = read(in(0), r * vocab, vocab);
    const double uniform = read(in(1), r, 1)[0];
    tally_.elementwise += vocab;
    std::vector<std::uint32_t> ids = by_descending(logits);
    if (call_.params[0] == 0) {
      choice.tokens.push_back(static_cast<std::int32_t>(ids[0]));
      continue;
    }
    const auto top_k = static_cast<std::size_t>(call_.params[1]);
    const bool cut = (top_k > 0 && top_k < vocab) || call_.params[2] < 1;
    if (!cut) std::sort(ids.begin(), ids.end());
    if (top_k > 0) ids.resize(std::min(top_k, vocab));
    Vector scaled(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) scaled[static_cast<Eigen::Index>(i)] = logits[ids[i]] / double{call_.params[0]};
    const Vector p = softmax(scaled);
    double mass = 0;
    Eigen::Index kept = 0;
    while (kept < p.size() && (kept == 0 || call_.params[2] >= 1 || mass < call_.params[2])) mass += p[kept++];
    Eigen::Index chosen = 0;
    for (double sum = p[0]; chosen + 1 < kept && sum <= uniform * mass;) sum += p[++chosen];
    choice.tokens.push_back(static_cast<std::int32_t>(ids[static_cast<std::size_t>(chosen)]));
  }
  return choice;
}

}  // namespace vitro::reference
