#include "engine/app/plan/plan_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/check.hpp"
#include "engine/ops/contract.hpp"
#include "traces/draw.hpp"
#include "traces/firing_statistics.hpp"

namespace vitro {
namespace {

using StepsOf = std::function<std::uint32_t(std::uint32_t batch)>;
using Ids = std::vector<std::uint32_t>;

// Neurons of sequence s at step t: named by the predictor, and firing; ascending. False: the token does not use the FFN.
using Source = std::function<bool(std::uint32_t s, std::uint32_t t, Ids& named, Ids& fired)>;

class Counter {
 public:
  // history: steps before the first one that counts, and the longest time between two uses that is told apart.
  Counter(const ReuseRequest& request, std::uint32_t steps, std::uint32_t history)
      : request_(request),
        history_(history),
        stride_((steps - history + kMostSeries - 1) / kMostSeries),
        blocks_((request.neurons + request.per_block - 1) / request.per_block),
        last_(blocks_),
        fires_(request.neurons),
        missing_(request.limits.size()),
        completed_(request.limits.size()),
        half_there_(request.limits.size(), std::vector<bool>(blocks_)) {
    const std::uint32_t buckets = std::min(request.buckets, blocks_);
    for (std::uint32_t k = 0; k < buckets; ++k) {
      const auto edge = [&](std::uint32_t i) { return static_cast<std::uint32_t>(std::uint64_t{i} * blocks_ / buckets); };
      ReuseBucket bucket;
      bucket.first = edge(k) * request.per_block;
      bucket.blocks = edge(k + 1) - edge(k);
      bucket.neurons = std::min(edge(k + 1) * request.per_block, request.neurons) - bucket.first;
      bucket.reuse.resize(history_ + 1);
      bucket.used_within.resize(history_ + 1);
      out_.insert(out_.end(), std::move(bucket));
      of_block_.insert(of_block_.end(), out_.back().blocks, k);
    }
  }

  void step(std::uint32_t t, const Ids& named, const Ids& fired, bool used) {
    const bool counts = t >= history_, kept = counts && (t - history_) % stride_ == 0;
    if (kept) {
      for (auto* series : {&missing_, &completed_}) {
        for (std::vector<double>& steps : *series) steps.push_back(0);
      }
    }
    if (used && !request_.limits.empty()) count_reads(t, named, fired, kept);
    if (used) ++uses_;
    for (const std::uint32_t neuron : fired) ++fires_[neuron];
    if (counts && used) {
      std::uint32_t before = ~0u;
      for (const std::uint32_t neuron : named) {
        const std::uint32_t block = neuron / request_.per_block;
        ReuseBucket& bucket = out_[of_block_[block]];
        bucket.named += 1;
        if (std::exchange(before, block) == block) continue;
        bucket.named_blocks += 1;
        const std::uint32_t gap = last_[block] == 0 ? 0 : t + 1 - last_[block];
        bucket.reuse[gap <= history_ ? gap : 0] += 1;
      }
      for (const std::uint32_t neuron : fired) out_[of_block_[neuron / request_.per_block]].fired += 1;
    }
    if (used) {
      for (const std::uint32_t neuron : request_.keep_named ? named : fired) last_[neuron / request_.per_block] = t + 1;
    }
    if (!counts) return;
    ++steps_;
    for (std::uint32_t block = 0; block < blocks_; ++block) {
      if (last_[block] == 0) continue;
      const std::uint32_t age = t + 2 - last_[block];  // 1: in this step
      if (age <= history_) out_[of_block_[block]].used_within[age] += 1;
    }
  }

  std::vector<std::vector<double>> take_missing() { return std::move(missing_); }
  std::vector<std::vector<double>> take_completed() { return std::move(completed_); }

  std::vector<ReuseBucket> take() {
    for (ReuseBucket& bucket : out_) {
      for (std::uint32_t n = 0; n < bucket.neurons; ++n) bucket.mostly += 2 * fires_[bucket.first + n] > uses_ ? 1 : 0;
      for (double* sum : {&bucket.named, &bucket.fired, &bucket.named_blocks}) *sum /= steps_;
      for (double& sum : bucket.reuse) sum /= steps_;
      for (std::size_t d = 1; d <= history_; ++d) bucket.used_within[d] = bucket.used_within[d] / steps_ + bucket.used_within[d - 1];
    }
    return std::move(out_);
  }

 private:
  // What a cache of each limit would read for a step, before the step counts as a use.
  void count_reads(std::uint32_t t, const Ids& named, const Ids& fired, bool counts) {
    std::vector<bool> fires(blocks_);
    for (const std::uint32_t neuron : fired) fires[neuron / request_.per_block] = true;
    std::uint32_t before = ~0u;
    for (const std::uint32_t neuron : named) {
      const std::uint32_t block = neuron / request_.per_block;
      if (std::exchange(before, block) == block) continue;
      const std::uint32_t gap = last_[block] == 0 ? 0 : t + 1 - last_[block];
      for (std::size_t i = 0; i < missing_.size(); ++i) {
        const auto& [hot, reach] = request_.limits[i];
        if (neuron < hot) continue;
        const bool misses = gap == 0 || gap > reach, completes = fires[block] && (misses || half_there_[i][block]);
        if (misses || completes) half_there_[i][block] = !fires[block];
        if (!counts) continue;
        missing_[i].back() += misses ? 1 : 0;
        completed_[i].back() += completes ? 1 : 0;
      }
    }
  }

  static constexpr std::uint32_t kMostSeries = 128;  // steps that are told one by one

  const ReuseRequest& request_;
  std::uint32_t history_, stride_, blocks_;
  std::vector<std::uint32_t> last_;  // 1 + the step in which a block was used last; 0: never
  std::vector<std::uint32_t> fires_;  // steps in which a neuron fires
  std::uint32_t uses_ = 0;            // of the FFN
  std::vector<std::uint32_t> of_block_;
  std::vector<ReuseBucket> out_;
  std::vector<std::vector<double>> missing_, completed_;  // of each limit, by step
  std::vector<std::vector<bool>> half_there_;             // of each limit: blocks of which a cache has the Gate row alone
  double steps_ = 0;
};

Ids united_ids(const std::vector<Ids>& parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<BatchReuse> count(const Source& source, const ReuseRequest& request, const StepsOf& steps_of) {
  std::vector<BatchReuse> out;
  for (const std::uint32_t batch : request.batches) {
    const std::uint32_t steps = steps_of(batch), history = std::min(steps, request.tokens) / 2;
    Counter counter(request, steps, history);
    BatchReuse reuse{batch, 0, {}, {}, {}};
    for (std::uint32_t t = 0; t < steps; ++t) {
      std::vector<Ids> named, fired;
      for (std::uint32_t s = 0; s < batch; ++s) {
        Ids n, f;
        if (!source(s, t, n, f)) continue;
        named.push_back(std::move(n));
        fired.push_back(std::move(f));
      }
      if (t >= history) reuse.rows += static_cast<double>(named.size()) / (steps - history);
      counter.step(t, united_ids(named), united_ids(fired), !named.empty());
    }
    reuse.buckets = counter.take();
    reuse.missing = counter.take_missing();
    reuse.completed = counter.take_completed();
    out.push_back(std::move(reuse));
  }
  return out;
}

Ids all_of(std::uint32_t neurons) {
  Ids all(neurons);
  for (std::uint32_t n = 0; n < neurons; ++n) all[n] = n;
  return all;
}

Ids drawn(DrawFunction& function, const ReuseRequest& request, std::int16_t layer, std::int16_t expert, SeqPos at, SelectOf of) {
  KernelCall call;
  call.op = ops::Select{.of = of};
  call.layer = layer;
  call.expert = expert;
  call.in.emplace_back();
  call.in[0].shape = {1, request.neurons, 0};
  call.batch = std::make_shared<const std::vector<SeqPos>>(1, at);
  return *std::get<ActiveSet>(function.execute(call)).rows.at(0);
}

// Whether the router takes the expert for that token.
bool uses(DrawFunction& function, const ReuseRequest& request, std::int16_t layer, std::int16_t expert, SeqPos at) {
  KernelCall call;
  call.op = ops::Route{.k = request.experts_used};
  call.layer = layer;
  call.in.emplace_back();
  call.in[0].shape = {1, request.experts, 0};
  call.batch = std::make_shared<const std::vector<SeqPos>>(1, at);
  const ExpertChoice choice = std::get<std::vector<ExpertChoice>>(function.execute(call)).at(0);
  return std::ranges::find(choice.ids, expert) != choice.ids.end();
}

void add(std::vector<double>& sum, const std::vector<double>& more) {
  sum.resize(std::max(sum.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

// same_steps: of one layer, whose misses a step has together.
void add(std::vector<BatchReuse>& sum, std::vector<BatchReuse> more, bool same_steps) {
  if (sum.empty()) {
    sum = std::move(more);
    return;
  }
  for (std::size_t b = 0; b < sum.size(); ++b) {
    sum[b].rows += more[b].rows;
    for (const auto series : {&BatchReuse::missing, &BatchReuse::completed}) {
      for (std::size_t i = 0; i < (sum[b].*series).size(); ++i) {
        std::vector<double>&to = (sum[b].*series)[i], &from = (more[b].*series)[i];
        same_steps ? add(to, from) : static_cast<void>(to.insert(to.end(), from.begin(), from.end()));
      }
    }
    for (std::size_t k = 0; k < sum[b].buckets.size(); ++k) {
      ReuseBucket &to = sum[b].buckets[k], &from = more[b].buckets[k];
      to.named += from.named;
      to.fired += from.fired;
      to.mostly += from.mostly;
      to.named_blocks += from.named_blocks;
      add(to.reuse, from.reuse);
      add(to.used_within, from.used_within);
    }
  }
}

void divide(std::vector<BatchReuse>& sum, double by) {
  for (BatchReuse& batch : sum) {
    batch.rows /= by;
    for (ReuseBucket& bucket : batch.buckets) {
      for (double* value : {&bucket.named, &bucket.fired, &bucket.mostly, &bucket.named_blocks}) *value /= by;
      for (double& value : bucket.reuse) value /= by;
      for (double& value : bucket.used_within) value /= by;
    }
  }
}

}  // namespace

std::vector<BatchReuse> reuse_of(const DrawProfile& profile, std::int16_t layer, const ReuseRequest& request) {
  VITRO_CHECK(request.neurons > 0 && request.tokens >= 2, "statistics of nothing");
  DrawFunction function(profile, request.seed);
  const std::uint32_t ffns = std::max(1u, request.experts);
  std::vector<BatchReuse> sum;
  for (std::uint32_t ffn = 0; ffn < ffns; ++ffn) {
    const auto expert = static_cast<std::int16_t>(request.experts > 0 ? static_cast<int>(ffn) : -1);
    const Source source = [&](std::uint32_t s, std::uint32_t t, Ids& named, Ids& fired) {
      if (expert >= 0 && !uses(function, request, layer, expert, {s, t})) return false;
      fired = drawn(function, request, layer, expert, {s, t}, SelectOf::gate);
      named = request.predicts ? drawn(function, request, layer, expert, {s, t}, SelectOf::predictor) : all_of(request.neurons);
      return true;
    };
    add(sum, count(source, request, [&](std::uint32_t) { return request.tokens; }), true);
  }
  divide(sum, ffns);
  return sum;
}

std::vector<BatchReuse> reuse_of(const Recording& recording, bool hottest_first_order, ReuseRequest request) {
  std::vector<FfnReuse> each = reuse_by_ffn(recording, hottest_first_order, std::move(request));
  std::vector<BatchReuse> sum;
  for (FfnReuse& ffn : each) add(sum, std::move(ffn.batches), false);
  divide(sum, static_cast<double>(each.size()));
  return sum;
}

std::vector<FfnReuse> reuse_by_ffn(const Recording& recording, bool hottest_first_order, ReuseRequest request) {
  const std::vector<LayerFiring> firing = firing_statistics(recording, request.neurons);
  if (firing.empty()) throw ConfigError("the recording has no active neurons (expected one of a model whose neurons are sparse)");
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> order;  // (sequence, position) to the step in one long stretch
  for (const auto& [key, fired] : recording.fired) order.emplace(std::pair(key.at.sequence, key.at.position), 0);
  std::uint32_t next = 0;
  for (auto& [at, index] : order) index = next++;
  const std::uint32_t largest = *std::max_element(request.batches.begin(), request.batches.end());
  if (order.size() / largest < 4) {
    throw ConfigError(
        fmt::format("the recording has {} tokens (expected {} or more to estimate a batch of {})", order.size(), 4 * largest, largest));
  }
  const Ids every = all_of(request.neurons);
  std::vector<FfnReuse> all;
  for (const LayerFiring& ffn : firing) {
    Ids place = every;
    if (hottest_first_order) {
      const Ids by_heat = hottest_first(ffn);
      for (std::uint32_t i = 0; i < by_heat.size(); ++i) place[by_heat[i]] = i;
    }
    std::vector<const FiredNeurons*> tokens(order.size());
    for (const auto& [key, fired] : recording.fired) {
      if (key.layer == ffn.layer && key.expert == ffn.expert) tokens[order.at({key.at.sequence, key.at.position})] = &fired;
    }
    std::uint32_t length = 0;
    const Source source = [&](std::uint32_t s, std::uint32_t t, Ids& named, Ids& fired) {
      const FiredNeurons* token = tokens[s * length + t];
      if (token == nullptr) return false;
      for (const std::uint32_t id : token->ids) fired.push_back(place[id]);
      std::sort(fired.begin(), fired.end());
      named = request.predicts ? fired : every;
      return true;
    };
    const StepsOf stretch = [&](std::uint32_t batch) { return length = static_cast<std::uint32_t>(order.size() / batch); };
    all.push_back({ffn.layer, ffn.expert, count(source, request, stretch)});
  }
  return all;
}

}  // namespace vitro
