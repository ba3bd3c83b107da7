// A Function that draws outcomes from an activation profile: a workload without weights.
#pragma once
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "engine/machine/function.hpp"

namespace vitro {

struct FiringProfile {
  double fraction = 0.1;  // of a layer's neurons fire per token, in the mean; 0 to 1
  // Popularity falls with rank r = 1 ... N as r^-skew, capped at 1. 0: all alike. 0.8 puts most of the activity into a
  // fifth of the neurons, as PowerInfer (2312.12456, section 3.1) found for ReLU models.
  double skew = 0;
};

// What a predictor gets wrong: it names `recall` of the neurons that fire, and of those that it names `precision` fire.
// Which silent neurons it names is drawn in proportion to how often they fire: a predictor errs where a gate is near its
// threshold (assumed; no source states how errors are distributed).
struct PredictorProfile {
  double recall = 1, precision = 1;
};

struct DrawProfile {
  std::vector<FiringProfile> layers{FiringProfile{}};  // a layer behind the last one has the last one's profile
  double expert_skew = 0;                              // as `skew`, for the popularity of experts within a layer
  // How much neighbouring tokens have in common. With probability `persistence` a neuron (or expert) repeats what it
  // drew for its current stretch of `stretch` tokens instead of drawing anew; stretches of different neurons do not line up.
  double persistence = 0;
  std::uint32_t stretch = 8;
  // Neurons stand by descending popularity, as in a file packed by frequency: rank = index. Else ranks are drawn.
  bool ordered = false;
  PredictorProfile predictor;
};

// Every answer is a pure function of (seed, layer, expert, sequence, position): independent of the order of calls, of
// slicing, policy and machine, and known at any position without the ones before. Thread-safe.
class DrawFunction final : public Function {
 public:
  // ConfigError when a profile is out of range.
  DrawFunction(DrawProfile profile, std::uint64_t seed);
  ~DrawFunction() override;

  // glu with report_active, select, route and sample; other calls do nothing. Operand shapes give the numbers of neurons,
  // experts and tokens. select of the gate and glu give the same neurons, select of the predictor these with its errors.
  Outcome execute(const KernelCall& call) override;

  // The probability that each of `neurons` neurons fires for a token: what a planner may know of the workload.
  std::vector<double> firing_probability(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;
  std::vector<double> expert_popularity(std::int16_t layer, std::uint32_t experts) const;  // sums to 1

 private:
  struct Table;
  std::shared_ptr<const Table> table(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;
  std::uint64_t draw(std::uint64_t stream, std::uint32_t item, SeqPos at) const;
  IndexList fired(const KernelCall& call, SeqPos at) const;
  std::vector<ExpertChoice> route(const KernelCall& call) const;

  const DrawProfile profile_;
  const std::uint64_t seed_;
  mutable std::shared_mutex mutex_;
  mutable std::map<std::tuple<std::int16_t, std::int16_t, std::uint32_t>, std::shared_ptr<const Table>> tables_;
};

}  // namespace vitro
