#include "engine/graph/lowering.hpp"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/base/check.hpp"
#include "engine/graph/lora_pass.hpp"
#include "engine/graph/operator_graph.hpp"

namespace vitro {
namespace {

// True when the operator needs the complete input, not just the slice that it writes.
bool reads_whole(const Operator& consumer, std::uint8_t operand) {
  if (consumer.is<ops::ExpertSum>()) return operand != 0;
  if (consumer.is<ops::AddProduct>()) return operand != kAdaptedProduct;
  if (consumer.is<ops::AddGated>()) return operand == ops::AddGated::kGateInput;
  return !consumer.is<ops::Rope, ops::KvAppend, ops::KvStage, ops::Attention, ops::AttentionScores, ops::AttentionWeights,
                      ops::AttentionValues, ops::Glu, ops::Add, ops::Reduce, ops::Move>();
}

bool attends(const Operator& op) { return op.is<ops::Attention, ops::AttentionScores>(); }
bool goes_on_attending(const Operator& op) { return op.is<ops::AttentionWeights, ops::AttentionValues>(); }

class Lowering {
 public:
  Lowering(const OperatorGraph& graph, const ModelConfig& config, std::size_t units, LoweringOptions options)
      : graph_(graph), config_(config), units_(units), options_(options) {}

  std::vector<Phase> run() {
    for (const OperatorId id : execution_order(graph_)) {
      if (phases_.empty() || !joins_current(id)) open_phase(id);
      place(id);
    }
    return std::move(phases_);
  }

 private:
  struct Where {
    std::size_t phase, group;
  };

  std::uint32_t extent_of(const Operator& op) const {
    if (op.split == Split::rows) return op.width;
    return op.split == Split::kv_heads ? config_.kv_heads : 1;
  }

  std::uint32_t grain_of(const Operator& op) const {
    if (op.split != Split::rows) return 1;
    const Weight* weight = options_.weights != nullptr && op.weight ? options_.weights->find(*op.weight, op.layer) : nullptr;
    return weight != nullptr ? std::max(kTileRows, group_rows(weight->layout)) : kTileRows;
  }

  bool in_current(OperatorId id) const { return where_.at(id).phase + 1 == phases_.size(); }

  bool joins_current(OperatorId id) const {
    const Operator& op = graph_[id];
    if (op.whole_ffn || phases_.back().whole_ffn) return false;
    if (options_.layers_apart && op.layer != phases_.back().layer) return false;
    if (options_.waits_to_attend && units_ == 1 && !goes_on_attending(op) && (attends(op) || phases_.back().attends)) {
      return false;
    }
    if ((op.rows == RowSet::routed) != phases_.back().routed && !op.is<ops::ExpertSum, ops::Add, ops::AddGated>()) return false;
    const std::vector<OperatorId> inputs = inputs_of(graph_, id);
    for (std::uint8_t i = 0; i < inputs.size(); ++i) {
      if (!in_current(inputs[i])) continue;
      const Operator& from = graph_[inputs[i]];
      if (from.is<ops::Route>()) return false;
      // Different experts' partial sums meet here, slice by slice, on the unit that made them.
      if (op.is<ops::ExpertSum>() && i == 0) continue;
      if (units_ == 1 && op.rows != RowSet::routed) continue;
      if (options_.attention_alone && op.block == BlockKind::attention && from.block == BlockKind::attention) continue;
      // Heads that one unit attends to are staged by others.
      if (op.is<ops::KvStage>() || from.is<ops::KvStage>()) return false;
      if (from.split == Split::replicated) continue;
      if (from.split == Split::single && op.split == Split::single) continue;
      if (reads_whole(op, i) || from.split != op.split || extent_of(from) != extent_of(op)) return false;
    }
    return true;
  }

  void open_phase(OperatorId id) {
    const Operator& op = graph_[id];
    phases_.push_back({op.layer, op.block, op.rows == RowSet::routed, op.whole_ffn});
  }

  void place(OperatorId id) {
    const Operator& op = graph_[id];
    Phase& phase = phases_.back();
    phase.attends = phase.attends || attends(op);
    phase.keeps_kv = phase.keeps_kv || op.is<ops::KvAppend>();
    phase.stages_kv = phase.stages_kv || op.is<ops::KvStage>();
    std::vector<OperatorGroup>& groups = phase.groups;
    // Groups of the producers whose slices it follows: they become one.
    std::vector<std::size_t> follows;
    const std::vector<OperatorId> inputs = inputs_of(graph_, id);
    for (std::uint8_t i = 0; i < inputs.size(); ++i) {
      if (!in_current(inputs[i]) || reads_whole(op, i)) continue;
      const Operator& from = graph_[inputs[i]];
      if (from.split == op.split && extent_of(from) == extent_of(op) && from.rows == op.rows) follows.push_back(where_.at(inputs[i]).group);
    }
    std::sort(follows.begin(), follows.end());
    follows.erase(std::unique(follows.begin(), follows.end()), follows.end());
    // An earlier group can only move up to the latest one if nothing on the way reads it: a residual sum does not pull
    // the sum before it past the norm that stands between them.
    std::erase_if(follows, [&](std::size_t g) { return g != follows.back() && is_read_after(g); });
    if (follows.empty()) {
      const std::uint32_t extent = extent_of(op);
      groups.push_back({op.split, op.rows, extent, grain_of(op), {id}});
      where_[id] = {phases_.size() - 1, groups.size() - 1};
      return;
    }
    // The merged group takes the place of the latest one: by then all that any of them reads has been placed.
    const std::size_t target = follows.back();
    std::vector<OperatorId> merged;
    std::uint32_t grain = grain_of(op);
    for (const std::size_t g : follows) {
      merged.insert(merged.end(), groups[g].operators.begin(), groups[g].operators.end());
      grain = std::max(grain, groups[g].grain);
    }
    merged.push_back(id);
    groups[target].grain = grain;
    std::sort(merged.begin(), merged.end());
    groups[target].operators = std::move(merged);
    for (std::size_t k = follows.size() - 1; k-- > 0;) groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(follows[k]));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const OperatorId member : groups[g].operators) where_[member] = {phases_.size() - 1, g};
    }
  }

  bool is_read_after(std::size_t group) const {
    const std::vector<OperatorGroup>& groups = phases_.back().groups;
    for (std::size_t later = group + 1; later < groups.size(); ++later) {
      for (const OperatorId id : groups[later].operators) {
        for (const OperatorId input : inputs_of(graph_, id)) {
          if (in_current(input) && where_.at(input).group == group) return true;
        }
      }
    }
    return false;
  }

  const OperatorGraph& graph_;
  const ModelConfig& config_;
  std::size_t units_;
  LoweringOptions options_;
  std::vector<Phase> phases_;
  std::map<OperatorId, Where> where_;
};

}  // namespace

std::vector<Phase> lower(const OperatorGraph& graph, const ModelConfig& config, std::size_t units, LoweringOptions options) {
  return Lowering(graph, config, units, options).run();
}

// Asked thousands of times per token: without memory of the heap for as many units as phones have.
Slice share_of(std::uint32_t extent, std::uint32_t grain, std::size_t unit, const Shares& shares) {
  constexpr std::size_t kFewUnits = 16;
  const std::uint32_t grains = (extent + grain - 1) / grain;
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  boost::container::small_vector<std::uint32_t, kFewUnits> whole(shares.size());
  boost::container::small_vector<std::pair<double, std::size_t>, kFewUnits> short_of;  // by how much, negated: the furthest come first
  std::uint32_t left = grains;
  const auto exact = [&](std::size_t u) { return grains * shares[u] / total; };
  for (std::size_t u = 0; u < shares.size(); ++u) {
    whole[u] = std::min(static_cast<std::uint32_t>(exact(u) + 1e-9), left);
    left -= whole[u];
  }
  for (std::size_t u = 0; u < shares.size() && left > 0; ++u) {
    if (shares[u] > 0) short_of.emplace_back(std::round((whole[u] - exact(u)) * 1e6), u);
  }
  std::sort(short_of.begin(), short_of.end());
  for (std::size_t i = 0; left > 0; i = (i + 1) % short_of.size(), --left) ++whole[short_of[i].second];
  std::uint32_t first = 0;
  for (std::size_t u = 0; u < unit; ++u) first += whole[u];
  const std::uint32_t begin = std::min(first * grain, extent), end = std::min((first + whole[unit]) * grain, extent);
  return {begin, end - begin};
}

}  // namespace vitro
