// A Function that draws outcomes from an activation profile: a workload without weights.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "engine/machine/function.hpp"
#include "traces/draw_profile.hpp"
#include "traces/expert_draws.hpp"
#include "traces/kept_draws.hpp"
#include "traces/layer_ahead.hpp"
#include "traces/neuron_draws.hpp"

namespace vitro {

// Every answer is a pure function of (seed, layer, expert, sequence, position): independent of the order of calls, of
// slicing, policy and machine, and known at any position without the ones before. Thread-safe. Answers are kept for a while, and
// a batch's are drawn a layer ahead.
class DrawFunction final : public Function {
 public:
  // ConfigError when a profile is out of range.
  DrawFunction(DrawProfile profile, std::uint64_t seed);

  // glu with report_active, select, route and sample; other calls do nothing. Operand shapes give the numbers of neurons,
  // experts and tokens. select of the gate and glu give the same neurons, select of the predictor these with its errors.
  Outcome execute(const KernelCall& call) override;

  // As of NeuronDraws and ExpertDraws: what a planner may know of the workload.
  double activity(std::int16_t layer, SeqPos at) const { return neurons_.activity(layer, at); }
  std::vector<double> firing_probability(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
    return neurons_.probability(layer, expert, neurons);
  }
  std::vector<double> expert_popularity(std::int16_t layer, std::uint32_t experts) const {
    return experts_.popularity(layer, experts);
  }
  // Of what was entered so far, all drawn.
  KeptDraws::Ahead ahead() {
    ahead_.settle();
    return kept_.ahead();
  }

 private:
  // For neurons: what the next layer will be asked, too.
  struct Asked {
    std::atomic<std::uint32_t> neurons = 0;
    std::atomic<bool> guesses = false;
  };
  struct Drawer {
    KeptDraws::By who;
    StretchTable stretches;
  };
  IndexBits drawn(const NeuronKey& key, Drawer& drawer);
  bool draw_ahead(const LayerAhead::Step& step);
  bool guessed(const KernelCall& call) const;
  std::vector<ExpertChoice> route(const KernelCall& call);
  TokenChoice sample(const KernelCall& call) const;
  ActiveSet active(const KernelCall& call);

  const DrawProfile profile_;
  const std::uint64_t seed_;
  const ExpertDraws experts_;
  const NeuronDraws neurons_;
  KeptDraws kept_;
  std::mutex drawing_;
  Drawer asked_for_;  // with drawing_ held
  Drawer foreseen_;   // of the thread that draws ahead
  Asked asked_;
  LayerAhead ahead_;  // last: its thread uses all of the above
};

}  // namespace vitro
