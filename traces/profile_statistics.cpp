#include "traces/profile_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "engine/base/check.hpp"
#include "engine/base/recency_list.hpp"
#include "engine/ops/contract.hpp"
#include "traces/draw.hpp"

namespace vitro {
namespace {

using Ids = std::vector<std::uint32_t>;

// The neurons of each token of one sequence, as kernels and policies get them.
std::vector<Ids> tokens_of(DrawFunction& function, const StatisticsRequest& request, std::uint32_t sequence, SelectOf of,
                           std::uint32_t tokens) {
  KernelCall call;
  call.op = ops::Select{.of = of};
  call.layer = request.layer;
  call.expert = request.expert;
  call.in.emplace_back();
  call.in[0].shape = {1, request.neurons, 0};
  std::vector<Ids> out;
  for (std::uint32_t position = 0; position < tokens; ++position) {
    call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{sequence, position});
    out.push_back(*std::get<ActiveSet>(function.execute(call)).rows.at(0));
  }
  return out;
}

double common(const Ids& a, const Ids& b) {
  Ids both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return static_cast<double>(both.size());
}

double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

double hit_rate(const std::vector<Ids>& tokens, std::uint32_t neurons, std::uint32_t capacity) {
  if (capacity == 0) return 0;
  RecencyList cache(neurons);
  for (std::uint32_t n = capacity; n-- > 0;) cache.push_newest(n);
  double hits = 0, lookups = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (const std::uint32_t neuron : tokens[t]) {
      const bool hit = cache.contains(neuron);
      if (t >= tokens.size() / 2) {
        hits += hit;
        ++lookups;
      }
      cache.erase(hit ? neuron : cache.oldest());
      cache.push_newest(neuron);
    }
  }
  return ratio(hits, lookups);
}

// Of ordered pairs of the neurons that fired at all: fired together over fired.
double coactivation_of_colder_half(const std::vector<Ids>& tokens, const std::vector<double>& probability) {
  std::vector<double> sorted = probability;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end(), std::greater<>());
  const double cold = *middle;  // neurons as cold as the middle one belong to it
  const auto members = static_cast<double>(std::count_if(sorted.begin(), sorted.end(), [cold](double p) { return p <= cold; }));
  double together = 0, fired = 0;
  for (const Ids& token : tokens) {
    const auto n =
        static_cast<double>(std::count_if(token.begin(), token.end(), [&](std::uint32_t id) { return probability[id] <= cold; }));
    together += n * (n - 1);
    fired += n;
  }
  return members < 2 ? 0 : ratio(together, fired * (members - 1));
}

std::vector<ProfileStatistics::Curve> curve_of(std::vector<double> probability, const std::vector<double>& shares) {
  std::sort(probability.begin(), probability.end(), std::greater<>());
  const double all = std::accumulate(probability.begin(), probability.end(), 0.0);
  std::vector<ProfileStatistics::Curve> out;
  for (const double share : shares) {
    const auto count = std::clamp<std::size_t>(static_cast<std::size_t>(std::llround(share * static_cast<double>(probability.size()))), 1,
                                               probability.size());
    const double part = std::accumulate(probability.begin(), probability.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
    out.push_back({share, probability[count - 1], ratio(part, all)});
  }
  return out;
}

}  // namespace

ExpertStatistics expert_statistics(const DrawProfile& profile, std::uint64_t seed, std::int16_t layer, std::uint32_t experts,
                                   std::uint32_t used, std::uint32_t tokens) {
  VITRO_CHECK(used <= experts && tokens > 1, "statistics of nothing");
  DrawFunction function(profile, seed);
  KernelCall call;
  call.op = ops::Route{.k = used};
  call.layer = layer;
  call.in.emplace_back();
  call.in[0].shape = {1, experts, 0};
  std::vector<SeqPos> positions;
  for (std::uint32_t position = 0; position < tokens; ++position) positions.push_back({0, position});
  call.batch = std::make_shared<const std::vector<SeqPos>>(std::move(positions));
  const auto choices = std::get<std::vector<ExpertChoice>>(function.execute(call));
  ExpertStatistics out;
  for (std::size_t t = 1; t < choices.size(); ++t) {
    const auto &before = choices[t - 1].ids, &now = choices[t].ids;
    out.shared += std::ranges::find_first_of(now, before) != now.end() ? 1.0 : 0.0;
    out.same_first += now.front() == before.front() ? 1.0 : 0.0;
  }
  out.shared /= tokens - 1;
  out.same_first /= tokens - 1;
  return out;
}

ProfileStatistics profile_statistics(const DrawProfile& profile, const StatisticsRequest& request) {
  VITRO_CHECK(request.neurons > 0 && request.tokens > 0, "statistics of nothing");
  DrawFunction function(profile, request.seed);
  const std::vector<double> probability = function.firing_probability(request.layer, request.expert, request.neurons);
  const std::vector<Ids> tokens = tokens_of(function, request, 0, SelectOf::gate, request.tokens);
  const std::vector<Ids> guesses = tokens_of(function, request, 0, SelectOf::predictor, request.tokens);
  ProfileStatistics out;
  double fired = 0, named = 0, right = 0, repeated = 0, after_first = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    fired += static_cast<double>(tokens[t].size());
    named += static_cast<double>(guesses[t].size());
    right += common(tokens[t], guesses[t]);
    if (t == 0) continue;
    repeated += common(tokens[t - 1], tokens[t]);
    after_first += static_cast<double>(tokens[t].size());
  }
  const double places = static_cast<double>(request.neurons) * request.tokens;
  out.fraction = fired / places;
  out.named = named / places;
  out.recall = ratio(right, fired);
  out.coactivation = ratio(right, named);
  out.repeated = ratio(repeated, after_first);
  out.cold_coactivation = coactivation_of_colder_half(tokens, probability);
  out.curve = curve_of(probability, request.hottest);
  for (const double share : request.cached) {
    out.caches.push_back({share, hit_rate(tokens, request.neurons, static_cast<std::uint32_t>(share * request.neurons))});
  }
  // A batch: as many sequences at the same position.
  std::vector<bool> fires(request.neurons);
  std::uint32_t sequence = 0;
  std::vector<std::uint32_t> batches = request.batches;
  std::sort(batches.begin(), batches.end());
  for (const std::uint32_t batch : batches) {
    for (; sequence < batch; ++sequence) {
      const std::vector<Ids> first = tokens_of(function, request, sequence, SelectOf::gate, 1);
      for (const std::uint32_t neuron : first.front()) fires[neuron] = true;
    }
    const auto hot = std::count_if(probability.begin(), probability.end(), [batch](double p) { return 1 - std::pow(1 - p, batch) >= 0.5; });
    const auto firing = std::count(fires.begin(), fires.end(), true);
    out.batches.push_back({batch, static_cast<double>(firing) / request.neurons, static_cast<double>(hot) / request.neurons});
  }
  return out;
}

}  // namespace vitro
