#include "traces/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "engine/base/rng.hpp"
#include "engine/kernels/contract.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

// First part of every key: draws for different purposes never share bits.
enum Purpose : std::uint64_t { kNeuron = 1, kNeuronRank, kExpert, kExpertRank, kToken, kPhase, kRepeat, kStretch, kPredict };

std::uint64_t word(std::int16_t value) { return static_cast<std::uint16_t>(value); }

// The last step of splitmix64: one draw per neuron has to cost nanoseconds.
std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t own_stream(std::uint64_t stream, std::uint32_t item) { return scramble(stream ^ (item * 0x9e3779b97f4a7c15u)); }
std::uint64_t at_position(std::uint64_t own, SeqPos at) { return scramble(own ^ scramble(at.position + 0xd1b54a32d192ed03u)); }

// Item i's rank in a popularity order that is itself drawn: popular neurons are scattered over a layer.
std::vector<std::uint32_t> ranks(std::uint64_t key, std::uint32_t n) {
  std::vector<std::uint32_t> order(n), rank(n);
  std::iota(order.begin(), order.end(), 0u);
  std::vector<std::uint64_t> draws(n);
  for (std::uint32_t i = 0; i < n; ++i) draws[i] = mix(key, {i});
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return std::pair(draws[a], a) < std::pair(draws[b], b); });
  for (std::uint32_t r = 0; r < n; ++r) rank[order[r]] = r;
  return rank;
}

// min(1, c * shape[i]) with the c that makes their mean, weighted, `fraction`: found by bisection. `high`: a c at which the
// mean is at least that.
std::vector<double> capped(const std::vector<double>& shape, const std::vector<double>& weight, double fraction, double high) {
  std::vector<double> out(shape.size());
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  const auto mean = [&](double c) {
    double sum = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) sum += weight[i] * (out[i] = std::min(1.0, c * shape[i]));
    return sum / total;
  };
  double low = 0;
  for (int step = 0; step < 100 && !shape.empty(); ++step) {
    const double middle = (low + high) / 2;
    (mean(middle) < fraction ? low : high) = middle;
  }
  if (!shape.empty()) mean(high);
  return out;
}

// A power law of the rank, capped at 1, with the mean `fraction`.
std::vector<double> capped_power_law(std::uint32_t n, double skew, double fraction) {
  std::vector<double> shape(n);
  for (std::uint32_t r = 0; r < n; ++r) shape[r] = std::pow(r + 1.0, -skew);
  return capped(shape, std::vector<double>(n, 1.0), fraction, n == 0 ? 0 : 1 / shape.back());  // there every neuron fires
}

// The probability that each neuron is named although it is silent, by its probability of firing. A precision too low for
// the silent neurons that there are names all that ever fire.
std::vector<double> false_alarms(const std::vector<double>& firing, const PredictorProfile& predictor) {
  std::vector<double> silent(firing.size());
  std::transform(firing.begin(), firing.end(), silent.begin(), [](double p) { return 1 - p; });
  const double fired = std::accumulate(firing.begin(), firing.end(), 0.0);
  const double silence = std::accumulate(silent.begin(), silent.end(), 0.0);
  double rarest = 1;
  for (const double p : firing) rarest = p > 0 ? std::min(rarest, p) : rarest;
  if (predictor.precision == 1 || silence == 0) return std::vector<double>(firing.size(), 0.0);
  return capped(firing, silent, predictor.recall * fired * (1 / predictor.precision - 1) / silence, 1 / rarest);
}

std::uint32_t last_dimension(const KernelCall& call, std::string_view what) {
  if (call.in.empty() || call.in[0].shape[1] == 0) {
    throw RunError(fmt::format("{}: the operand has no {} to draw from", to_string(call.op), what));
  }
  return call.in[0].shape[1];
}

}  // namespace

struct DrawFunction::Table {
  std::vector<double> probability, false_alarm;
};

DrawFunction::DrawFunction(DrawProfile profile, std::uint64_t seed) : profile_(std::move(profile)), seed_(seed) {
  const auto check = [](const std::string& what, double value, double max) {
    if (!(value >= 0 && value <= max)) throw ConfigError(fmt::format("activation profile: {} {} (expected 0 to {})", what, value, max));
  };
  if (profile_.layers.empty()) throw ConfigError("activation profile: there is no layer");
  for (std::size_t i = 0; i < profile_.layers.size(); ++i) {
    check(fmt::format("layer {}: firing fraction", i), profile_.layers[i].fraction, 1);
    check(fmt::format("layer {}: skew", i), profile_.layers[i].skew, 10);
  }
  check("expert skew", profile_.expert_skew, 10);
  check("persistence", profile_.persistence, 1);
  check("predictor recall", profile_.predictor.recall, 1);
  check("predictor precision", profile_.predictor.precision, 1);
  if (profile_.predictor.precision == 0) throw ConfigError("activation profile: a predictor precision of 0 (expected above 0 to 1)");
  if (profile_.stretch == 0) throw ConfigError("activation profile: a stretch of 0 tokens (expected 1 or more)");
}

DrawFunction::~DrawFunction() = default;

std::shared_ptr<const DrawFunction::Table> DrawFunction::table(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
  const std::tuple key{layer, expert, neurons};
  {
    const std::shared_lock lock(mutex_);
    const auto known = tables_.find(key);
    if (known != tables_.end()) return known->second;
  }
  const std::size_t index = std::min<std::size_t>(layer < 0 ? 0 : static_cast<std::size_t>(layer), profile_.layers.size() - 1);
  const std::vector<double> by_rank = capped_power_law(neurons, profile_.layers[index].skew, profile_.layers[index].fraction);
  auto made = std::make_shared<Table>();
  made->probability = by_rank;
  if (!profile_.ordered) {
    const std::vector<std::uint32_t> rank = ranks(mix(seed_, {kNeuronRank, word(layer), word(expert)}), neurons);
    for (std::uint32_t i = 0; i < neurons; ++i) made->probability[i] = by_rank[rank[i]];
  }
  made->false_alarm = false_alarms(made->probability, profile_.predictor);
  const std::unique_lock lock(mutex_);
  return tables_.emplace(key, std::move(made)).first->second;  // another thread's table is the same
}

std::vector<double> DrawFunction::firing_probability(std::int16_t layer, std::int16_t expert, std::uint32_t neurons) const {
  return table(layer, expert, neurons)->probability;
}

std::vector<double> DrawFunction::expert_popularity(std::int16_t layer, std::uint32_t experts) const {
  const std::vector<std::uint32_t> rank = ranks(mix(seed_, {kExpertRank, word(layer)}), experts);
  std::vector<double> out(experts);
  double sum = 0;
  for (std::uint32_t e = 0; e < experts; ++e) sum += out[e] = std::pow(rank[e] + 1.0, -profile_.expert_skew);
  for (double& share : out) share /= sum;
  return out;
}

// The draw of one item (neuron or expert) at one place. `stream` holds seed, purpose, layer, expert and sequence.
std::uint64_t DrawFunction::draw(std::uint64_t stream, std::uint32_t item, SeqPos at) const {
  const std::uint64_t own = own_stream(stream, item), fresh = at_position(own, at);
  if (profile_.persistence == 0) return fresh;
  if (to_unit(scramble(fresh ^ kRepeat)) >= profile_.persistence) return fresh;
  const std::uint64_t phase = scramble(own ^ kPhase) % profile_.stretch;
  return scramble(own ^ scramble((at.position + phase) / profile_.stretch + 0x8cb92ba72f3d8dd7u) ^ kStretch);
}

IndexList DrawFunction::fired(const KernelCall& call, SeqPos at) const {
  const auto known = table(call.layer, call.expert, last_dimension(call, "neurons"));
  const std::vector<double>& probability = known->probability;
  const std::uint64_t stream = mix(seed_, {kNeuron, word(call.layer), word(call.expert), at.sequence});
  const PredictorProfile& predictor = profile_.predictor;
  const bool guesses = call.op == Op::select && select_of(call) == SelectOf::predictor && (predictor.recall < 1 || predictor.precision < 1);
  const std::uint64_t guess = mix(seed_, {kPredict, word(call.layer), word(call.expert), at.sequence});
  auto ids = std::make_shared<std::vector<std::uint32_t>>();
  const auto look_at = [&](std::uint32_t neuron) {
    bool named = to_unit(draw(stream, neuron, at)) < probability[neuron];
    if (guesses) named = to_unit(at_position(own_stream(guess, neuron), at)) < (named ? predictor.recall : known->false_alarm[neuron]);
    if (named) ids->push_back(neuron);
  };
  const auto [first, end] = slice_range(call);
  const auto size = static_cast<std::uint32_t>(probability.size());
  if (call.rows != nullptr) {
    for (const std::uint32_t neuron : *call.rows) {
      if (neuron < size) look_at(neuron);
    }
  } else {
    for (std::uint32_t neuron = first; neuron < std::min(end, size); ++neuron) look_at(neuron);
  }
  return ids;
}

// k experts without replacement, each in proportion to its popularity: the k largest of log(popularity) plus Gumbel
// noise (Efraimidis and Spirakis 2006). The same scores serve as router logits for the weights.
std::vector<ExpertChoice> DrawFunction::route(const KernelCall& call) const {
  const std::uint32_t experts = last_dimension(call, "experts");
  const auto k = static_cast<std::uint32_t>(call.params[0]);
  if (k == 0 || k > experts) throw RunError(fmt::format("route: {} of {} experts were asked for", k, experts));
  const std::vector<double> popularity = expert_popularity(call.layer, experts);
  std::vector<ExpertChoice> out;
  for (const SeqPos at : *call.batch) {
    const std::uint64_t stream = mix(seed_, {kExpert, word(call.layer), at.sequence});
    std::vector<std::pair<double, std::uint32_t>> scores;
    for (std::uint32_t e = 0; e < experts; ++e) {
      const double u = 1 - to_unit(draw(stream, e, at));  // in (0, 1]
      // The smallest double keeps u = 1 finite: it is the luckiest draw, not an infinite one.
      scores.emplace_back(-(std::log(popularity[e]) - std::log(std::max(-std::log(u), 0x1.0p-60))), e);
    }
    std::sort(scores.begin(), scores.end());
    double sum = 0;
    const std::uint32_t counted = call.params[1] != 0 ? k : experts;
    for (std::uint32_t i = 0; i < counted; ++i) sum += std::exp(scores[0].first - scores[i].first);
    ExpertChoice choice;
    for (std::uint32_t i = 0; i < k; ++i) {
      choice.ids.push_back(static_cast<std::uint16_t>(scores[i].second));
      choice.weights.push_back(static_cast<float>(std::exp(scores[0].first - scores[i].first) / sum));
    }
    out.push_back(std::move(choice));
  }
  return out;
}

Outcome DrawFunction::execute(const KernelCall& call) {
  const bool fires = (call.op == Op::glu && call.report_active) || call.op == Op::select;
  if (!fires && call.op != Op::route && call.op != Op::sample) return {};
  VITRO_CHECK(call.batch != nullptr, "a call with an outcome needs a batch");
  if (call.op == Op::route) return route(call);
  if (call.op == Op::sample) {
    const std::uint32_t vocab = last_dimension(call, "tokens");
    TokenChoice choice;
    for (const SeqPos at : *call.batch) {
      choice.tokens.push_back(static_cast<std::int32_t>(mix(seed_, {kToken, at.sequence, at.position}) % vocab));
    }
    return choice;
  }
  ActiveSet active;
  for (const SeqPos at : *call.batch) active.rows.push_back(fired(call, at));
  return active;
}

}  // namespace vitro
