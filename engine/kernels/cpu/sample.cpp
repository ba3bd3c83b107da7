#include <algorithm>
#include <numeric>

#include "engine/kernels/cpu/logits.hpp"
#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::cpu {
namespace {

// Candidates in drawing order: by descending logit, or all of them by id when neither top-k nor top-p cuts anything.
// Probabilities are summed in double in that order, so a draw is the same everywhere.
std::int32_t draw(const ops::Sample& op, const KernelSet& set, const float* logits, std::size_t n, float uniform) {
  const std::size_t k = op.top_k > 0 ? std::min<std::size_t>(n, op.top_k) : n;
  const bool cut = k < n || op.top_p < 1;
  std::vector<std::uint32_t> ids;
  if (cut) ids = largest(logits, n, k);
  std::vector<float> p(k);
  for (std::size_t i = 0; i < k; ++i) p[i] = logits[cut ? ids[i] : i];
  set.softmax(p.data(), k, 1.0f / op.temperature);
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  std::size_t kept = k;
  double mass = total;
  if (op.top_p < 1) {  // the shortest prefix with at least this mass
    mass = 0;
    for (kept = 0; kept < k && (kept == 0 || mass < op.top_p * total);) mass += p[kept++];
  }
  std::size_t chosen = 0;
  for (double sum = p[0]; chosen + 1 < kept && sum <= uniform * mass;) sum += p[++chosen];
  return static_cast<std::int32_t>(cut ? ids[chosen] : chosen);
}

}  // namespace

Outcome compute(const ops::Sample& op, const KernelSet& set, const KernelCall& call) {
  const std::size_t rows = call.in[0].shape[0], vocab = columns(call.in[0]);
  TokenChoice choice;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* logits = call.in[0].as<float>() + r * vocab;
    check_logits(call, logits, vocab, r);
    choice.tokens.push_back(op.temperature == 0 ? static_cast<std::int32_t>(std::max_element(logits, logits + vocab) - logits)
                                                : draw(op, set, logits, vocab, call.in[1].as<float>()[r]));
  }
  return choice;
}

}  // namespace vitro::cpu
