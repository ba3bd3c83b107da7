#include "engine/parts/ffn/neuron_cluster/predictor.hpp"

#include <algorithm>

#include "engine/graph/lowering.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

// A token alone meets all of its experts with the same x, and the first matrix is theirs together.
bool same_input(const FfnGroup& a, const FfnGroup& b) {
  return a.x.memory.block() == b.x.memory.block() && a.x.offset == b.x.offset && a.x.shape == b.x.shape;
}

}  // namespace

Predictor::Predictor(Machine& machine, const WeightStore& weights, const Residency& residency, PredictorOptions options)
    : machine_(machine),
      weights_(weights),
      residency_(residency),
      options_(std::move(options)),
      rank_(weights.first(Role::predictor_in)->rows),
      neurons_(weights.first(Role::predictor_out)->rows) {
  const auto lease = [&](Bytes width) {
    Result<Lease> result = machine_.memory.lease(4 * width * options_.max_rows, Placement::dram, Region::activation);
    if (!result.ok()) throw ConfigError("memory.budget: no room for the predictors' activations: " + result.status().message);
    return std::move(result).value();
  };
  hidden_ = lease(rank_);
  scores_ = lease(neurons_);
  if (!options_.relu) return;
  ones_ = lease(rank_);
  if (ones_.data() != nullptr) std::fill_n(reinterpret_cast<float*>(ones_.data()), std::size_t{rank_} * options_.max_rows, 1.0f);
}

Task<std::vector<NamedNeurons>> Predictor::predict(std::int16_t layer, const std::vector<FfnGroup>* groups,
                                                   std::vector<std::uint32_t> first) {
  const std::size_t units = options_.units.size();
  std::vector<NamedNeurons> predicted;
  for (const bool scores : {false, true}) {
    std::vector<std::vector<Outcome>> outcomes(units);
    TaskScope scope(machine_.executor);
    for (std::size_t u = 0; u < units; ++u) {
      const Slice share = share_of(rank_, kTileRows, u, units);
      Chain chain = scores ? score_calls(layer, *groups, first, u) : share.count > 0 ? hidden_calls(layer, *groups, share) : Chain();
      if (!chain.empty()) scope.spawn(run(options_.units[u], std::move(chain), &outcomes[u]));
    }
    co_await scope.join();
    if (!scores) continue;
    // A unit answers group by group, each for its own share of the neurons; shares ascend.
    std::vector<std::size_t> answered(units);
    for (std::size_t g = 0; g < groups->size(); ++g) {
      std::vector<IndexList> parts;
      std::size_t count = 0;
      IndexBits bits;  // of one row, which all units have alike
      for (std::size_t u = 0; u < units; ++u) {
        const Slice share = share_from(first[g], u);
        if (share.count == 0) continue;
        const ActiveSet& active = std::get<ActiveSet>(outcomes[u].at(answered[u]++));
        check_active(active.rows, share.first, share.first + share.count);
        const IndexBits its_bits = active.bits.size() == 1 ? active.bits.front() : nullptr;
        bits = parts.empty() || bits == its_bits ? its_bits : nullptr;
        parts.push_back(united(active.rows));
        count += parts.back()->size();
      }
      auto all = std::make_shared<std::vector<std::uint32_t>>();
      all->reserve(count);
      for (const IndexList& part : parts) all->insert(all->end(), part->begin(), part->end());
      predicted.push_back({std::move(all), std::move(bits)});
    }
  }
  co_return predicted;
}

Task<void> Predictor::run(ComputeUnit* unit, Chain chain, std::vector<Outcome>* outcomes) {
  charge_dispatch(machine_.clock, chain);
  RunResult result = co_await unit->run(std::move(chain));
  result.status.or_throw();
  *outcomes = std::move(result.outcomes);
}

View Predictor::buffer(const Lease& lease, std::uint32_t first_row, std::uint32_t rows, std::uint32_t width) const {
  View view;
  view.memory = lease;
  view.offset = Bytes{4} * first_row * width;
  view.shape = {rows, width, 0};
  return view;
}

// `weights` times `x` for one group; the call that follows is made from it.
KernelCall Predictor::product(std::int16_t layer, const FfnGroup& group, Slice share, View weights, View x, View out) const {
  KernelCall call;
  call.op = ops::Matmul{};
  call.layer = layer;
  call.expert = group.expert;
  call.slice = share;
  call.batch = group.rows;
  call.variant = variant::supports(options_.matmul, weights.format, weights.layout) ? options_.matmul : variant::kFloat;
  call.in = {std::move(weights), std::move(x)};
  call.out = {std::move(out)};
  return call;
}

Chain Predictor::hidden_calls(std::int16_t layer, const std::vector<FfnGroup>& groups, Slice share) const {
  Chain chain;
  std::uint32_t first = 0;
  for (const FfnGroup& group : groups) {
    const auto rows = static_cast<std::uint32_t>(group.rows->size());
    const std::uint32_t first_row = std::exchange(first, first + rows);  // as score_calls() counts them
    if (&group != &groups.front() && same_input(group, groups.front())) continue;
    const View hidden = buffer(hidden_, first_row, rows, rank_);
    chain.push_back(product(layer, group, share, residency_.view(weights_.get(Role::predictor_in, layer)), group.x, hidden));
    if (options_.relu) {
      KernelCall relu = chain.back();  // relu(h) * 1, in place
      relu.op = ops::Glu{Activation::relu};
      relu.variant = variant::kFloat;
      relu.in = {hidden, buffer(ones_, 0, rows, rank_)};
      chain.push_back(std::move(relu));
    }
  }
  return chain;
}

// A unit's share of the neurons from `first` on.
Slice Predictor::share_from(std::uint32_t first, std::size_t unit) const {
  Slice share = share_of(neurons_ - first, kTileRows, unit, options_.units.size());
  share.first += first;
  return share;
}

Chain Predictor::score_calls(std::int16_t layer, const std::vector<FfnGroup>& groups, const std::vector<std::uint32_t>& first,
                             std::size_t unit) const {
  Chain chain;
  std::uint32_t row = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto rows = static_cast<std::uint32_t>(groups[g].rows->size());
    const std::uint32_t first_row = std::exchange(row, row + rows);
    const Slice share = share_from(first[g], unit);
    if (share.count == 0) continue;
    const View scores = buffer(scores_, first_row, rows, neurons_);
    View weights =
        residency_.view(weights_.get(Role::predictor_out, layer), static_cast<std::uint32_t>(std::max<int>(groups[g].expert, 0)));
    const View hidden = buffer(hidden_, same_input(groups[g], groups.front()) ? 0 : first_row, rows, rank_);
    chain.push_back(product(layer, groups[g], share, std::move(weights), hidden, scores));
    KernelCall select = chain.back();
    select.variant = variant::kFloat;
    select.in = {scores};
    select.out.clear();
    const std::vector<float>& thresholds = options_.thresholds;
    const float threshold = thresholds[thresholds.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
    select.op = ops::Select{threshold, options_.activation, SelectOf::predictor};
    chain.push_back(std::move(select));
  }
  return chain;
}

}  // namespace vitro
