// How a transformer is made for its parts, and what is checked and loaded before its first step.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "engine/graph/operator_graph.hpp"
#include "engine/ops/variants.hpp"
#include "engine/transformer/kv_setup.hpp"
#include "engine/transformer/model_graph.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {
namespace {

BufferLimits limits_of(const ModelConfig& config, const TransformerOptions& options, RoutedFfn* routed) {
  const KvShape shape = kv_shape(config, options);
  BufferLimits limits;
  limits.rows = options.max_rows;
  limits.span = options.span;
  limits.sampled = options.max_sampled;
  limits.routed = routed != nullptr ? routed->pool_rows(options.max_rows) : options.max_rows * config.experts_used;
  limits.table_width = (options.max_position + shape.block_tokens - 1) / shape.block_tokens;
  limits.tables = may_spill(config, options) ? config.layers : 1;
  if (options.placement->stages_kv()) limits.staged_blocks = pool_blocks(shape, options.max_tokens, options.sequences);
  return limits;
}

std::vector<Phase> phases_alone(const OperatorGraph& graph, const ModelConfig& config, const WeightStore& weights,
                                const TransformerOptions& options, bool layers_apart = false) {
  if (options.placement->attention_graphs().unit == nullptr) return {};
  return lower(graph, config, options.placement->units().size(),
               {.attention_alone = true, .layers_apart = layers_apart, .weights = &weights});
}

std::optional<KvStaging> staging_of(Memory& memory, const KvCache& kv, const ModelConfig& config, const UnitPlacement& placement) {
  if (!placement.stages_kv()) return std::nullopt;
  return std::optional<KvStaging>(std::in_place, memory, kv, config.window);
}

// Whether the ways to carry products out apply: on an accelerator, or on a core that hands its products to one.
bool has_ways(const ComputeUnit& unit) { return !is_core(unit) || dynamic_cast<const OffloadUnit*>(&unit) != nullptr; }

// A core that stands in for an accelerator has its contract, too.
OwnContract own_contract(const ComputeUnit& unit, const UnitPlacement& placement) {
  if (!is_core(unit) || placement.is_accelerator(unit)) return OwnContract::of_all;
  return has_ways(unit) ? OwnContract::of_layers : OwnContract::none;
}

// One kind for all sequences of a run: keys in the cache have been turned by it.
Role rope_factors(const ModelConfig& config, const TransformerOptions& options) {
  if (!config.rope_factors_by_length) return Role::rope_factors;
  return config.turns_as_long(options.max_position) ? Role::rope_factors_long : Role::rope_factors_short;
}

CallOptions call_options(const ModelConfig& config, const TransformerOptions& options, const KvStaging* staging) {
  CallOptions call{options.matmul, options.prefill_matmul, options.attention, options.report_active};
  for (const ComputeUnit* unit : options.placement->units()) {
    call.accelerators.push_back(has_ways(*unit));
    call.own.push_back(own_contract(*unit, *options.placement));
  }
  call.products = options.products;
  call.accelerator_matmul = options.accelerator_matmul;
  call.copy = options.copy;
  call.embedding = options.embedding;
  call.adapters = options.adapters;
  call.scales_query = options.activations == Format::f16;
  call.rope_factors = rope_factors(config, options);
  call.placement = options.placement;
  call.staged = {staging, options.placement->units().size() - 1};
  return call;
}

bool stay(const Residency& residency, const WeightCopy& copy) {
  return residency.stays() && (copy.residency == nullptr || copy.residency->stays());
}

}  // namespace

Batch rows_alone(std::size_t count) {
  std::vector<SeqPos> rows(count);
  for (std::uint32_t i = 0; i < count; ++i) rows[i].position = i;
  return std::make_shared<const std::vector<SeqPos>>(std::move(rows));
}

Transformer::Transformer(Machine& machine, const ModelConfig& config, const WeightStore& weights, Residency& residency, GraphCache& graphs,
                         Ffn ffn, TransformerOptions options)
    : machine_(machine),
      config_(config),
      options_(std::move(options)),
      placement_(*options_.placement),
      units_(placement_.units()),
      attention_graphs_(placement_.attention_graphs()),
      ffn_(std::move(ffn)),
      owned_graph_(std::make_shared<OperatorGraph>(
          model_graph(config_, weights, options_.products, options_.adapters,
                      {.whole_ffns = ffn_.stage() != nullptr,
                       .stages_kv = placement_.stages_kv(),
                       .fuse = options_.fuse,
                       .whole_attention = variant::attends_in_fp16(options_.attention),
                       .positions = options_.max_position,
                       .value = options_.value}))),
      graph_(*owned_graph_),
      buffers_(machine.memory, graph_, config_, limits_of(config_, options_, ffn_.routed.get()), units_.size(),
               options_.activations),
      kv_(machine.memory, kv_shape(config_, options_), options_.max_tokens, options_.sequences,
          kv_placement(machine.memory, config_, options_)),
      staging_(staging_of(machine.memory, kv_, config_, placement_)),
      phases_(lower(graph_, config_, units_.size(), {.waits_to_attend = kv_.tiered(), .weights = &weights})),
      alone_phases_(phases_alone(graph_, config_, weights, options_)),
      builder_(graph_, config_, weights, residency, buffers_, kv_, call_options(config_, options_, staging_ ? &*staging_ : nullptr)),
      phase_calls_(builder_, graph_, stay(residency, options_.copy)),
      residency_(residency),
      graphs_(graphs),
      loads_(machine.executor),
      runner_(machine, residency, graphs) {
  log_splits();
  if (options_.span > 0) {
    layer_phases_ = lower(graph_, config_, units_.size(), {.waits_to_attend = kv_.tiered(), .layers_apart = true, .weights = &weights});
    layer_alone_phases_ = phases_alone(graph_, config_, weights, options_, true);
  }
  if (residency_.looks_ahead(1)) {
    std::uint32_t rows = 1;
    while (rows < options_.max_rows && residency_.looks_ahead(rows + 1)) ++rows;
    look_ahead_.emplace(machine_, graph_, weights, residency_, graphs_, buffers_, options_.matmul, rows);
  }
  if (!kv_.tiered()) return;
  kv_flash_.emplace(machine_, kv_, KvFlashOptions{options_.kv_prefetch, options_.kv_checksums, units_.front()->caps().id});
}

// Who keeps keys and values in a form that the last unit does not read also stages them: all but that one.
Shares Transformer::shares_of(const Phase& phase, std::size_t rows) const {
  if (!staging_ || phase.attends || !(phase.keeps_kv || phase.stages_kv)) {
    return placement_.shares_of(phase, static_cast<std::uint32_t>(rows));
  }
  Shares shares(units_.size(), 1.0);
  shares.back() = 0;
  return shares;
}

// The part of the KV heads that the unit attends to for which keys and values are staged.
Slice Transformer::staged_heads(std::size_t rows) const {
  if (!staging_) return {0, 0};
  const Shares shares = placement_.shares(BlockKind::attention, static_cast<std::uint32_t>(rows), true);
  return share_of(config_.kv_heads, 1, units_.size() - 1, shares);
}

void Transformer::log_splits() const {
  if (!machine_.trace.enabled()) return;
  std::vector<std::uint32_t> rows = placement_.row_limits();
  if (rows.empty()) rows = {1};
  for (const std::uint32_t up_to : rows) {
    const std::string when = rows.size() == 1 ? "" : fmt::format(", up to {} rows", up_to);
    for (const Phase& phase : phases_) {
      if (phase.stages_kv) continue;  // of the heads that another unit attends to
      const Shares shares = shares_of(phase, up_to);
      for (const OperatorGroup& group : phase.groups) {
        if (group.split != Split::rows && group.split != Split::kv_heads) continue;
        for (std::size_t u = 0; u < shares.size(); ++u) {
          const Slice share = share_of(group.extent, group.grain, u, shares);
          machine_.trace.decision("split", fmt::format("{} {}+{}{}", graph_[group.operators.front()].name, share.first, share.count, when),
                                  units_[u]->caps().name);
        }
      }
    }
  }
}

Task<void> Transformer::load_attention_graphs() {
  const AttentionGraphs& graphs = attention_graphs_;
  if (graphs.unit == nullptr || graphs.rows > options_.max_rows) co_return;  // no step has so many rows
  StepContext step;
  step.rows = step.sampled = rows_alone(graphs.rows);
  step.staged = staged_heads(graphs.rows);
  for (const Phase& phase : alone_phases_) {
    if (phase.block != BlockKind::attention) continue;
    const Shares shares = shares_of(phase, graphs.rows);
    Chain chain;
    UnitQueues queues = builder_.build(phase, step, shares);
    for (WorkItem& item : queues.back()) {
      std::move(item.calls.begin(), item.calls.end(), std::back_inserter(chain));
    }
    co_await graphs.unit->prepare(std::move(chain));
  }
}

// A step's own bytes decide nothing but which experts there are: all of them, one row each.
void Transformer::check_room() const {
  if (residency_.stays()) return;
  std::set<std::uint32_t> sizes{1, options_.max_rows};
  for (const std::uint32_t limit : placement_.row_limits()) sizes.insert(std::min(limit, options_.max_rows));
  if (attention_graphs_.unit != nullptr) sizes.insert(std::min(attention_graphs_.rows, options_.max_rows));
  StepContext step;
  step.experts.rows = {0};
  for (std::uint16_t expert = 0; expert < config_.experts; ++expert) step.experts.groups.push_back({expert, 0, 1});
  for (const std::uint32_t rows : sizes) {
    step.rows = rows_alone(rows);
    step.sampled = rows_alone(std::min(rows, options_.max_sampled));
    step.staged = staged_heads(rows);
    for (const Phase& phase : phases_of(rows)) {
      if (!phase.whole_ffn) residency_.check_room(builder_.build(phase, step, shares_of(phase, rows)));
    }
  }
}

}  // namespace vitro
