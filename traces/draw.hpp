// A Function that draws outcomes from an activation profile: a workload without weights.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <vector>

#include "engine/machine/function.hpp"
#include "traces/draw_profile.hpp"
#include "traces/firing_process.hpp"

namespace vitro {

// Every answer is a pure function of (seed, layer, expert, sequence, position): independent of the order of calls, of
// slicing, policy and machine, and known at any position without the ones before. Thread-safe. Answers are kept for a while, so
// that a layer's neurons are drawn once however many clusters ask for theirs.
class DrawFunction final : public Function {
 public:
  // ConfigError when a profile is out of range.
  DrawFunction(DrawProfile profile, std::uint64_t seed);
  ~DrawFunction() override;

  // glu with report_active, select, route and sample; other calls do nothing. Operand shapes give the numbers of neurons,
  // experts and tokens. select of the gate and glu give the same neurons, select of the predictor these with its errors.
  Outcome execute(const KernelCall& call) override;

  // The factor of a layer's probabilities at a position (DrawProfile::activity_spread).
  double activity(std::int16_t layer, SeqPos at) const;
  // The probability that each of `neurons` neurons fires for a token of usual activity: what a planner may know of the workload.
  std::vector<double> firing_probability(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;
  std::vector<double> expert_popularity(std::int16_t layer, std::uint32_t experts) const;  // sums to 1

 private:
  struct Firing;  // of all FFNs with one profile, by rank
  struct Ffn;     // a layer's or an expert's: its firing, and which neuron has which rank
  struct Drawn;   // one answer
  struct Key {
    std::int16_t layer = -1, expert = -1;
    std::uint32_t neurons = 0;
    SeqPos at;
    bool guess = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  std::shared_ptr<const Ffn> ffn(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;
  std::shared_ptr<const Drawn> drawn(const Key& key) const;  // both: with drawing_ held
  std::shared_ptr<const Drawn> draw(const Key& key) const;
  void add_fired(const KernelCall& call, SeqPos at, ActiveSet& active) const;
  double normal(std::int16_t layer, SeqPos at) const;
  std::vector<std::uint32_t> neurons_by_rank(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;
  std::uint64_t expert_draw(std::uint64_t stream, std::uint32_t expert, SeqPos at) const;
  std::vector<ExpertChoice> route(const KernelCall& call) const;

  const DrawProfile profile_;
  const std::uint64_t seed_;
  mutable std::shared_mutex mutex_;  // of the tables
  mutable std::map<std::pair<std::size_t, std::uint32_t>, std::shared_ptr<const Firing>> firings_;
  mutable std::map<std::tuple<std::int16_t, std::int16_t, std::uint32_t>, std::shared_ptr<const Ffn>> ffns_;
  struct Kept {
    Key key;
    std::shared_ptr<const Drawn> drawn;
    std::uint64_t drawn_at = 0;  // counted in draws
  };
  mutable std::mutex drawing_;
  mutable std::vector<Kept> kept_;  // by a hash of the key; a newer answer takes the place of an older one
  mutable std::uint64_t draws_ = 0;
  mutable StretchTable stretches_;  // by stream
};

}  // namespace vitro
