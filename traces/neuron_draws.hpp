// Which neurons of a layer or expert fire, drawn from an activation profile.
#pragma once
#include <map>
#include <memory>
#include <shared_mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/ops/kernel_call.hpp"
#include "traces/draw_profile.hpp"
#include "traces/firing_process.hpp"
#include "traces/index_bits.hpp"

namespace vitro {

// What is drawn: one row's neurons of one FFN, or what its predictor names.
struct NeuronKey {
  std::int16_t layer = -1, expert = -1;
  std::uint32_t neurons = 0;
  SeqPos at;
  bool guess = false;
  friend bool operator==(const NeuronKey&, const NeuronKey&) = default;
};

// A pure function of seed and key. Thread-safe for threads with a StretchTable each.
class NeuronDraws {
 public:
  // Requires: the profile outlives it.
  NeuronDraws(const DrawProfile& profile, std::uint64_t seed) : profile_(profile), seed_(seed) {}
  ~NeuronDraws();

  // The neurons that fire.
  Bits fires(const NeuronKey& key, StretchTable& stretches) const;
  // Those that a predictor names, of which `fires` fire.
  Bits guesses(const NeuronKey& key, const Bits& fires, StretchTable& stretches) const;

  // The factor of a layer's probabilities at a position (DrawProfile::activity_spread).
  double activity(std::int16_t layer, SeqPos at) const;
  // The probability that each of `neurons` neurons fires for a token of usual activity.
  std::vector<double> probability(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;

 private:
  struct Firing;  // of all FFNs with one profile, by rank
  struct Ffn;     // a layer's or an expert's: its firing, and which neuron has which rank
  std::shared_ptr<const Ffn> ffn(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;
  std::vector<std::uint32_t> neurons_by_rank(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const;
  double normal(std::int16_t layer, SeqPos at) const;
  std::uint64_t stream(std::uint64_t purpose, const NeuronKey& key) const;
  Bits run(const Ffn& ffn, const FiringProcess& process, std::uint64_t stream, const NeuronKey& key, StretchTable& stretches) const;

  const DrawProfile& profile_;
  const std::uint64_t seed_;
  mutable std::shared_mutex mutex_;  // of the tables
  mutable std::map<std::pair<std::size_t, std::uint32_t>, std::shared_ptr<const Firing>> firings_;
  mutable std::map<std::tuple<std::int16_t, std::int16_t, std::uint32_t>, std::shared_ptr<const Ffn>> ffns_;
};

}  // namespace vitro
