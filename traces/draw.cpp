#include "traces/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <span>

#include "engine/base/hash.hpp"
#include "engine/base/rng.hpp"
#include "engine/ops/contract.hpp"
#include "traces/firing_process.hpp"
#include "traces/foresight.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

// First part of every key: draws for different purposes never share bits.
enum Purpose : std::uint64_t {
  kNeuron = 1,
  kNeuronRank,
  kExpert,
  kExpertRank,
  kToken,
  kPhase,
  kRepeat,
  kStretch,
  kMiss,
  kAlarm,
  kTask,
  kActivity,
  kPurposes,
};
static_assert(kPurposes == kForesight);

constexpr double kMostActive = 2;         // times the mean: where the tail of a token's activity is cut
constexpr int kMostLayersBack = 64;        // whose draws a layer's activity has a part of,
constexpr double kLeastWeight = 1e-3;     // at least so large
constexpr std::size_t kKept = 1024;       // answers: a layer's truth and guesses for a chunk of a prompt
constexpr std::size_t kPlaces = 8;        // of which an answer may take any: two in one place would be drawn anew for every cluster
constexpr std::size_t kStretches = 2048;  // streams: 32 layers of 8 experts, truth and guesses, for four sequences

std::uint64_t word(std::int16_t value) { return static_cast<std::uint16_t>(value); }

// Items in an order that is itself drawn: popular neurons are scattered over a layer.
void shuffle(std::vector<std::uint32_t>& items, std::uint64_t key) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> draws;
  draws.reserve(items.size());
  for (const std::uint32_t item : items) draws.emplace_back(mix(key, {item}), item);
  std::sort(draws.begin(), draws.end());
  std::transform(draws.begin(), draws.end(), items.begin(), [](const auto& draw) { return draw.second; });
}

std::vector<std::uint32_t> up_to(std::uint32_t n) {
  std::vector<std::uint32_t> items(n);
  std::iota(items.begin(), items.end(), 0u);
  return items;
}

using Bits = std::vector<std::uint64_t>;

void set(Bits& bits, std::uint32_t number) { bits[number / 64] |= std::uint64_t{1} << number % 64; }

// Calls `each` with the numbers of the bits in [first, end), ascending. Requires: there are so many.
template <class Each>
void for_bits(const Bits& bits, std::uint32_t first, std::uint32_t end, Each each) {
  for (std::uint32_t w = first / 64; 64 * w < end; ++w) {
    std::uint64_t left = bits[w];
    if (64 * w < first) left &= ~std::uint64_t{0} << first % 64;
    if (end - 64 * w < 64) left &= ~(~std::uint64_t{0} << end % 64);
    for (; left != 0; left &= left - 1) each(64 * w + static_cast<std::uint32_t>(std::countr_zero(left)));
  }
}

std::vector<std::uint32_t> numbers(const Bits& bits, std::uint32_t first, std::uint32_t end) {
  std::size_t most = 0;
  for (std::uint32_t w = first / 64; 64 * w < end; ++w) most += static_cast<std::size_t>(std::popcount(bits[w]));
  std::vector<std::uint32_t> out(most);
  std::uint32_t* next = out.data();
  for_bits(bits, first, end, [&](std::uint32_t number) { *next++ = number; });
  out.resize(static_cast<std::size_t>(next - out.data()));
  return out;
}

std::uint32_t last_dimension(const KernelCall& call, std::string_view what) {
  if (call.in.empty() || call.in[0].shape[1] == 0) {
    throw RunError(fmt::format("{}: the operand has no {} to draw from", to_string(call.op), what));
  }
  return call.in[0].shape[1];
}

}  // namespace

struct DrawFunction::Firing {
  FiringProcess truth, alarms;
};

struct DrawFunction::Ffn {
  std::shared_ptr<const Firing> firing;
  std::vector<std::uint32_t> neurons;  // by rank; empty: rank is index
  std::uint32_t neuron(std::uint32_t rank) const { return neurons.empty() ? rank : neurons[rank]; }
  Bits by_neuron(Bits ranks) const {
    if (neurons.empty()) return ranks;
    Bits out(ranks.size());
    for_bits(ranks, 0, static_cast<std::uint32_t>(neurons.size()), [&](std::uint32_t rank) { set(out, neurons[rank]); });
    return out;
  }
};

struct DrawFunction::Drawn {
  Bits bits;  // of the neurons
};

DrawFunction::DrawFunction(DrawProfile profile, std::uint64_t seed)
    : profile_(std::move(profile)), seed_(seed), kept_(kKept + kPlaces - 1), stretches_(kStretches) {
  check(profile_);
}

DrawFunction::~DrawFunction() = default;

std::shared_ptr<const DrawFunction::Ffn> DrawFunction::ffn(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
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
std::vector<std::uint32_t> DrawFunction::neurons_by_rank(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
  const bool tasks = !profile_.task.empty() && profile_.task_share > 0;
  if (profile_.ordered && !tasks) return {};
  std::vector<std::uint32_t> order = up_to(neurons);
  if (!profile_.ordered) shuffle(order, mix(seed_, {kNeuronRank, word(layer), word(expert)}));
  if (!tasks) return order;
  // Neurons that speak to the task exchange ranks among themselves.
  const std::uint64_t chosen = mix(seed_, {kTask, word(layer), word(expert)});
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
double DrawFunction::normal(std::int16_t layer, SeqPos at) const {
  const std::uint64_t own =
      layer < 0 ? mix(seed_, {kActivity, at.sequence, at.position}) : mix(seed_, {kActivity, at.sequence, at.position, word(layer)});
  const double radius = std::sqrt(-2 * std::log(1 - to_unit(own))), angle = to_unit(scramble(own));
  return radius * std::cos(2 * std::numbers::pi * angle);
}

// exp(s z - s s / 2) has the mean 1 and, for s s = log(1 + spread spread), the spread; z is normal. A layer's z is a moving average of its
// own draw and of those of the layers before it, which fall by the correlation each: that of an autoregressive process, without its past.
double DrawFunction::activity(std::int16_t layer, SeqPos at) const {
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

std::vector<double> DrawFunction::firing_probability(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
  const auto known = ffn(layer, expert, neurons);
  const std::vector<double>& by_rank = known->firing->truth.probability();
  std::vector<double> out(neurons);
  for (std::uint32_t rank = 0; rank < neurons; ++rank) out[known->neuron(rank)] = by_rank[rank];
  return out;
}

std::vector<double> DrawFunction::expert_popularity(std::int16_t layer, std::uint32_t experts) const {
  std::vector<std::uint32_t> order = up_to(experts);
  shuffle(order, mix(seed_, {kExpertRank, word(layer)}));
  std::vector<double> out(experts);
  double sum = 0;
  for (std::uint32_t rank = 0; rank < experts; ++rank) sum += out[order[rank]] = std::pow(rank + 1.0, -profile_.expert_skew);
  for (double& share : out) share /= sum;
  return out;
}

// The draw of one expert at one place. `stream` holds seed, purpose, layer and sequence.
std::uint64_t DrawFunction::expert_draw(std::uint64_t stream, std::uint32_t expert, SeqPos at) const {
  const std::uint64_t own = draw_of(stream, expert), fresh = draw_of(own, at.position);
  if (to_unit(scramble(fresh ^ kRepeat)) >= profile_.expert_persistence) return fresh;
  const std::uint64_t phase = draw_of(own, kPhase) % profile_.stretch;
  return draw_of(own ^ kStretch, (at.position + phase) / profile_.stretch);
}

std::shared_ptr<const DrawFunction::Drawn> DrawFunction::drawn(const Key& key) const {
  const std::uint64_t where = mix(key.neurons, {word(key.layer), word(key.expert), key.at.sequence, key.at.position, key.guess ? 1u : 0u});
  const std::span<Kept> places(kept_.data() + where % kKept, kPlaces);
  for (const Kept& place : places) {
    if (place.drawn != nullptr && place.key == key) return place.drawn;
  }
  std::shared_ptr<const Drawn> made = draw(key);  // which may take one of these places
  *std::ranges::min_element(places, {}, &Kept::drawn_at) = {key, made, ++draws_};
  return made;
}

std::shared_ptr<const DrawFunction::Drawn> DrawFunction::draw(const Key& key) const {
  const auto known = ffn(key.layer, key.expert, key.neurons);
  const auto stream = [&](Purpose what) { return mix(seed_, {what, word(key.layer), word(key.expert), key.at.sequence}); };
  auto out = std::make_shared<Drawn>();
  const auto run = [&](const FiringProcess& process, std::uint64_t of) {
    Bits ranks(process.words());
    process.draw(of, key.at.position, stretches_.of(of), ranks, activity(key.layer, key.at));
    return known->by_neuron(std::move(ranks));
  };
  if (!key.guess) {
    out->bits = run(known->firing->truth, stream(kNeuron));
    return out;
  }
  Key truth = key;
  truth.guess = false;
  const auto fires = drawn(truth);
  if (const double recall = profile_.predictor.recall; recall == 1) {
    out->bits = fires->bits;
  } else {
    out->bits.resize(fires->bits.size());
    const std::uint64_t misses = draw_of(stream(kMiss), key.at.position);
    for_bits(fires->bits, 0, key.neurons, [&](std::uint32_t neuron) {
      if (to_unit(draw_of(misses, neuron)) < recall) set(out->bits, neuron);
    });
  }
  const Bits alarms = run(known->firing->alarms, stream(kAlarm));
  for (std::size_t w = 0; w < alarms.size(); ++w) out->bits[w] |= alarms[w] & ~fires->bits[w];
  return out;
}

void DrawFunction::add_fired(const KernelCall& call, SeqPos at, ActiveSet& active) const {
  const PredictorProfile& predictor = profile_.predictor;
  const bool guess =
      call.is<ops::Select>() && call.get<ops::Select>().of == SelectOf::predictor && (predictor.recall < 1 || predictor.precision < 1);
  const std::uint32_t neurons = last_dimension(call, "neurons");
  const auto all = [&] {
    const std::lock_guard lock(drawing_);  // who asks at the same time mostly wants the same answer
    return drawn({call.layer, call.expert, neurons, at, guess});
  }();
  auto ids = std::make_shared<std::vector<std::uint32_t>>();
  if (call.rows != nullptr) {
    // Without branches: which of the rows fire is as good as random.
    ids->resize(call.rows->size());
    VITRO_CHECK(call.rows->empty() || call.rows->back() < neurons, "rows that the operand does not have");
    std::uint32_t* next = ids->data();
    const std::uint64_t* const bits = all->bits.data();
    for (const std::uint32_t neuron : *call.rows) {
      *next = neuron;
      next += bits[neuron / 64] >> neuron % 64 & 1;
    }
    ids->resize(static_cast<std::size_t>(next - ids->data()));
  } else {
    const auto [first, end] = slice_range(call);
    *ids = numbers(all->bits, first, std::min(end, neurons));
  }
  active.rows.push_back(std::move(ids));
  active.bits.emplace_back(all, &all->bits);
}

// k experts without replacement, each in proportion to its popularity: the k largest of log(popularity) plus Gumbel
// noise (Efraimidis and Spirakis 2006). The same scores serve as router logits for the weights.
std::vector<ExpertChoice> DrawFunction::route(const KernelCall& call) const {
  const std::uint32_t experts = last_dimension(call, "experts");
  const auto& asked = call.get<ops::Route>();
  const std::uint32_t k = asked.k;
  if (k == 0 || k > experts) throw RunError(fmt::format("route: {} of {} experts were asked for", k, experts));
  const std::vector<double> popularity = expert_popularity(call.layer, experts);
  std::vector<ExpertChoice> out;
  for (const SeqPos at : *call.batch) {
    const std::uint64_t stream = mix(seed_, {kExpert, word(call.layer), at.sequence});
    std::vector<std::pair<double, std::uint32_t>> scores;
    for (std::uint32_t e = 0; e < experts; ++e) {
      const double u = 1 - to_unit(expert_draw(stream, e, at));  // in (0, 1]
      // The smallest double keeps u = 1 finite: it is the luckiest draw, not an infinite one.
      scores.emplace_back(-(std::log(popularity[e]) - std::log(std::max(-std::log(u), 0x1.0p-60))), e);
    }
    std::sort(scores.begin(), scores.end());
    double sum = 0;
    const std::uint32_t counted = asked.renormalise ? k : experts;
    for (std::uint32_t i = 0; i < counted; ++i) sum += std::exp(scores[0].first - scores[i].first);
    ExpertChoice choice;
    for (std::uint32_t i = 0; i < k; ++i) {
      choice.ids.push_back(static_cast<std::uint16_t>(scores[i].second));
      choice.weights.push_back(static_cast<float>(std::exp(scores[0].first - scores[i].first) / sum));
    }
    if (call.expert == kForeseen) choice = foresee(choice, profile_.expert_foresight, {seed_, call.layer, at, experts});
    out.push_back(std::move(choice));
  }
  return out;
}

Outcome DrawFunction::execute(const KernelCall& call) {
  const bool fires = reports_active(call);
  if (!fires && !call.is<ops::Route>() && !call.is<ops::Sample>()) return {};
  VITRO_CHECK(call.batch != nullptr, "a call with an outcome needs a batch");
  if (call.is<ops::Route>()) return route(call);
  if (call.is<ops::Sample>()) {
    const std::uint32_t vocab = last_dimension(call, "tokens");
    TokenChoice choice;
    for (const SeqPos at : *call.batch) {
      choice.tokens.push_back(static_cast<std::int32_t>(mix(seed_, {kToken, at.sequence, at.position}) % vocab));
    }
    return choice;
  }
  ActiveSet active;
  active.rows.reserve(call.batch->size());
  active.bits.reserve(call.batch->size());
  for (const SeqPos at : *call.batch) add_fired(call, at, active);
  return active;
}

}  // namespace vitro
