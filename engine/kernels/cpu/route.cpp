#include "engine/kernels/cpu/logits.hpp"
#include "engine/kernels/cpu/ops.hpp"
#include "engine/ops/operands.hpp"

namespace vitro::cpu {
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

}  // namespace vitro::cpu
