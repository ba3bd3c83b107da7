#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/check.hpp"
#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::cpu {
namespace {

// A NaN has no place in an order; one in the logits means that the model or its weights are broken.
void check_logits(const KernelCall& call, const float* logits, std::size_t n, std::size_t row) {
  if (std::any_of(logits, logits + n, [](float l) { return std::isnan(l); })) {
    throw RunError(std::string(to_string(call.op)) + ": a logit of row " + std::to_string(row) + " is not a number");
  }
}

// The ids of the `k` largest logits, largest first, the lower id first among equals.
std::vector<std::uint32_t> largest(const float* logits, std::size_t n, std::size_t k) {
  std::vector<std::uint32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0u);
  const auto before = [&](std::uint32_t a, std::uint32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids.end(), before);
  ids.resize(k);
  return ids;
}

}  // namespace

namespace {

// Of all experts or of the chosen ones.
std::vector<float> softmax_weights(const ops::Route& op, const KernelSet& set, const float* logits, std::size_t n,
                                   const std::vector<std::uint32_t>& ids) {
  std::vector<float> values(op.renormalise ? ids.size() : n), weights;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = logits[op.renormalise ? ids[i] : i];
  const float total = set.softmax(values.data(), values.size(), 1.0f);
  for (std::size_t i = 0; i < ids.size(); ++i) weights.push_back(values[op.renormalise ? i : ids[i]] / total);
  return weights;
}

// The competitors of a choice by id; the choice itself is the largest of them, so its exponential is 1.
std::vector<float> mixer_weights(const KernelSet& set, const float* logits, std::size_t n, const std::vector<std::uint32_t>& ids) {
  std::vector<bool> chosen(n);
  std::vector<float> weights, rivals;
  for (const std::uint32_t id : ids) {
    rivals.clear();
    for (std::size_t e = 0; e < n; ++e) {
      if (!chosen[e] && ops::competes(logits[e], logits[id])) rivals.push_back(logits[e]);
    }
    weights.push_back(1.0f / set.softmax(rivals.data(), rivals.size(), 1.0f));
    chosen[id] = true;
  }
  return weights;
}

}  // namespace

Outcome compute(const ops::Route& op, const KernelSet& set, const KernelCall& call) {
  const std::size_t rows = call.in[0].shape[0], experts = columns(call.in[0]);
  std::vector<ExpertChoice> choices;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* logits = call.in[0].as<float>() + r * experts;
    check_logits(call, logits, experts, r);
    const std::vector<std::uint32_t> ids = largest(logits, experts, op.k);
    ExpertChoice choice;
    choice.weights = op.scores == ops::Scores::softmax ? softmax_weights(op, set, logits, experts, ids)
                                                       : mixer_weights(set, logits, experts, ids);
    for (const std::uint32_t id : ids) choice.ids.push_back(static_cast<std::uint16_t>(id));
    for (float& weight : choice.weights) weight *= op.scale;
    choices.push_back(std::move(choice));
  }
  return choices;
}

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
