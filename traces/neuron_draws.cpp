#include "traces/neuron_draws.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/hash.hpp"
#include "traces/draw_keys.hpp"

namespace vitro {
namespace {

constexpr double kMostActive = 2;         // times the mean: where the tail of a token's activity is cut
constexpr int kMostLayersBack = 64;        // whose draws a layer's activity has a part of,
constexpr double kLeastWeight = 1e-3;     // at least so large

}  // namespace

struct NeuronDraws::Firing {
  FiringProcess truth, alarms;
};

struct NeuronDraws::Ffn {
  std::shared_ptr<const Firing> firing;
  std::vector<std::uint32_t> neurons;  // by rank; empty: rank is index
  std::uint32_t neuron(std::uint32_t rank) const { return neurons.empty() ? rank : neurons[rank]; }
  Bits by_neuron(Bits ranks) const {
    if (neurons.empty()) return ranks;
    Bits out(ranks.size());
    for_bits(ranks, 0, static_cast<std::uint32_t>(neurons.size()), [&](std::uint32_t rank) { set_bit(out, neurons[rank]); });
    return out;
  }
};

NeuronDraws::~NeuronDraws() = default;

std::shared_ptr<const NeuronDraws::Ffn> NeuronDraws::ffn(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
  const std::tuple key{layer, expert, neurons};
  {
    const std::shared_lock lock(mutex_);
    const auto known = ffns_.find(key);
    if (known != ffns_.end()) return known->second;
  }
  auto made = std::make_shared<Ffn>();
  made->neurons = neurons_by_rank(layer, expert, neurons);
  const std::size_t index = std::min<std::size_t>(layer < 0 ? 0 : static_cast<std::size_t>(layer), profile_.layers.size() - 1);
  const std::unique_lock lock(mutex_);
  std::shared_ptr<const Firing>& firing = firings_[{index, neurons}];
  if (firing == nullptr) {
    const std::vector<double> curve = firing_curve(profile_.layers[index], neurons);
    const double most = profile_.activity_spread > 0 ? kMostActive : 1;
    firing = std::make_shared<Firing>(Firing{{curve, profile_.persistence, profile_.stretch, most},
                                             {false_alarms(curve, profile_.predictor), profile_.persistence, profile_.stretch, most}});
  }
  made->firing = firing;
  return ffns_.emplace(key, std::move(made)).first->second;  // another thread's is the same
}

// Empty: rank is index.
std::vector<std::uint32_t> NeuronDraws::neurons_by_rank(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
  const bool tasks = !profile_.task.empty() && profile_.task_share > 0;
  if (profile_.ordered && !tasks) return {};
  std::vector<std::uint32_t> order = up_to(neurons);
  if (!profile_.ordered) shuffle(order, mix(seed_, {kNeuronRank, key_word(layer), key_word(expert)}));
  if (!tasks) return order;
  // Neurons that speak to the task exchange ranks among themselves.
  const std::uint64_t chosen = mix(seed_, {kTask, key_word(layer), key_word(expert)});
  std::vector<std::uint32_t> ranks, members;
  for (std::uint32_t rank = 0; rank < neurons; ++rank) {
    if (to_unit(mix(chosen, {order[rank]})) >= profile_.task_share) continue;
    ranks.push_back(rank);
    members.push_back(order[rank]);
  }
  Hash task;
  task.add(std::string_view(profile_.task));
  shuffle(members, mix(chosen, {kTask, task.value()}));
  for (std::size_t i = 0; i < ranks.size(); ++i) order[ranks[i]] = members[i];
  return order;
}

// A draw of the standard normal distribution (Box and Muller). Layer -1: all layers together.
double NeuronDraws::normal(std::int16_t layer, SeqPos at) const {
  const std::uint64_t own =
      layer < 0 ? mix(seed_, {kActivity, at.sequence, at.position}) : mix(seed_, {kActivity, at.sequence, at.position, key_word(layer)});
  const double radius = std::sqrt(-2 * std::log(1 - to_unit(own))), angle = to_unit(scramble(own));
  return radius * std::cos(2 * std::numbers::pi * angle);
}

// exp(s z - s s / 2) has the mean 1 and, for s s = log(1 + spread spread), the spread; z is normal. A layer's z is a moving average of its
// own draw and of those of the layers before it, which fall by the correlation each: that of an autoregressive process, without its past.
double NeuronDraws::activity(std::int16_t layer, SeqPos at) const {
  if (profile_.activity_spread == 0) return 1;
  const double c = profile_.layer_correlation;
  double z = 0;
  if (c == 1) {
    z = normal(-1, at);
  } else {
    double squares = 0, weight = 1;
    for (int back = 0; back < kMostLayersBack && weight > kLeastWeight; ++back, weight *= c) {
      z += weight * normal(static_cast<std::int16_t>(std::max<int>(layer, 0) + kMostLayersBack - back), at);
      squares += weight * weight;
    }
    z /= std::sqrt(squares);
  }
  const double variance = std::log1p(profile_.activity_spread * profile_.activity_spread);
  return std::min(kMostActive, std::exp(std::sqrt(variance) * z - variance / 2));
}

std::vector<double> NeuronDraws::probability(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
  const auto known = ffn(layer, expert, neurons);
  const std::vector<double>& by_rank = known->firing->truth.probability();
  std::vector<double> out(neurons);
  for (std::uint32_t rank = 0; rank < neurons; ++rank) out[known->neuron(rank)] = by_rank[rank];
  return out;
}

std::uint64_t NeuronDraws::stream(std::uint64_t purpose, const NeuronKey& key) const {
  return mix(seed_, {purpose, key_word(key.layer), key_word(key.expert), key.at.sequence});
}

Bits NeuronDraws::run(const Ffn& ffn, const FiringProcess& process, std::uint64_t stream, const NeuronKey& key,
                      StretchTable& stretches) const {
  Bits ranks(process.words());
  process.draw(stream, key.at.position, stretches.of(stream), ranks, activity(key.layer, key.at));
  return ffn.by_neuron(std::move(ranks));
}

Bits NeuronDraws::fires(const NeuronKey& key, StretchTable& stretches) const {
  const auto known = ffn(key.layer, key.expert, key.neurons);
  return run(*known, known->firing->truth, stream(kNeuron, key), key, stretches);
}

Bits NeuronDraws::guesses(const NeuronKey& key, const Bits& fires, StretchTable& stretches) const {
  const auto known = ffn(key.layer, key.expert, key.neurons);
  Bits out = fires;
  if (const double recall = profile_.predictor.recall; recall < 1) {
    std::ranges::fill(out, 0);
    const std::uint64_t misses = draw_of(stream(kMiss, key), key.at.position);
    for_bits(fires, 0, key.neurons, [&](std::uint32_t neuron) {
      if (to_unit(draw_of(misses, neuron)) < recall) set_bit(out, neuron);
    });
  }
  const Bits alarms = run(*known, known->firing->alarms, stream(kAlarm, key), key, stretches);
  for (std::size_t w = 0; w < alarms.size(); ++w) out[w] |= alarms[w] & ~fires[w];
  return out;
}

}  // namespace vitro
