#include "engine/transformer/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/parts/register_parts.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

// Bytes that an accelerator has to map: the weights of layers in its form, its share of what follows them, and the keys and values that it
// reads.
Bytes mapped_bytes(const MappedOperands& mapped, const WeightStore& weights, Bytes kv) {
  Bytes bytes = kv, behind = 0;
  for (const Weight& weight : weights.all()) {
    if (weight.role != Role::token_embedding) (weight.layer >= 0 ? bytes : behind) += weight.extent.length;
  }
  const bool tied = weights.find(Role::output) == nullptr && weights.find(Role::value_head) == nullptr;
  if (tied && mapped.head > 0) behind += weights.get(Role::token_embedding).extent.length;
  return bytes + static_cast<Bytes>(mapped.head * static_cast<double>(behind));
}

// `own`: of this model; `other`: of the one beside it, which was there before.
void check_sessions(std::uint32_t sessions, const UnitCaps& caps, Bytes own, Bytes other) {
  const Bytes bytes = own + other;
  if (caps.session_limit == 0 || sessions == 0 || bytes <= sessions * caps.session_limit) return;
  const std::string of_both = other == 0 ? "" : fmt::format(", {} of them of the reward model beside it", format_bytes(own));
  throw ConfigError(fmt::format(
      "engine.sessions: {} sessions of {} map {}, but the weights and the KV cache of {} need {}{} (expected {} or more sessions{})",
      sessions, caps.name, format_bytes(sessions * caps.session_limit), caps.name, format_bytes(bytes), of_both,
      (bytes + caps.session_limit - 1) / caps.session_limit, other == 0 ? "" : ", or workload.scaling.scorer.placement: cores"));
}

Bytes kv_bytes(const ModelConfig& config, const KvConfig& kv, const PolicyLimits& limits) {
  const std::uint32_t heads = kv.per_query_head ? config.heads : config.kv_heads;
  const Bytes position = Bytes{config.layers} * heads * kv_pair_bytes(kv.format, config.head_dim);
  const bool spills = kv.rule() != nullptr;
  const KvShape shape{config.layers, heads, config.head_dim, kv.block_tokens, kv.format, spills};
  const Bytes block = in_whole_pages(shape).block_tokens, raised = block - kv.block_tokens;  // max_tokens knows what was asked for
  const Bytes all = round_up(limits.max_tokens + 2 * limits.sequences * raised, block) * position;
  if (!spills) return all;
  // Beside what stays: what this step and the one before computed, tails, and one layer of the rest.
  const Bytes in_dram = limits.sequences * (kv.dram_tokens.value_or(0) + 2 * block) + 2 * limits.max_rows;
  const Bytes sums = kv.checksums ? KvSums::bytes(all / (block * position) * config.layers) : 0;
  return std::min(all, in_dram * position + all / config.layers) + sums;
}

Bytes bytes_of(const WeightStore& weights) {
  Bytes bytes = 0;
  for (const Weight& weight : weights.all()) bytes += round_up(weight.extent.length, kPageSize);
  return bytes;
}

// Of one layer in fp16, for all that can be visible at once.
Bytes staging_bytes(const ModelConfig& config, const KvConfig& kv, const PolicyLimits& limits) {
  const std::uint32_t heads = kv.per_query_head ? config.heads : config.kv_heads;
  const KvShape shape = in_whole_pages({config.layers, heads, config.head_dim, kv.block_tokens, kv.format, kv.rule() != nullptr});
  return KvStaging::bytes(shape, (limits.max_tokens + shape.block_tokens - 1) / shape.block_tokens + limits.sequences);
}

// Rows of an embedding can be read one by one where it is nothing else.
void check_embedding_in_flash(const WeightStore& weights) {
  if (weights.find(Role::output) != nullptr) return;
  throw ConfigError(
      "engine.weights.embedding: flash saves no memory: the output matrix of this model is its embedding (tied), and every token reads all "
      "of "
      "it (expected dram)");
}

// What the FFN part computes has to be how the weights part keeps FFNs.
void check_parts(const EngineConfig& engine, Residency& residency) {
  if (engine.ffn.kind == "clusters" && residency.neurons() == nullptr) {
    throw ConfigError(
        fmt::format("engine.ffn.kind: clusters needs neuron bundles, which engine.weights.kind: {} does not have (expected bundles, "
                    "dram, paged or streamed)",
                    engine.weights.kind));
  }
}

// Layers, from the first one on, whose FFNs are whole matrices: those before the first one with neurons.
std::uint32_t whole_ffns(const WeightStore& weights, const ModelConfig& model) {
  const Weight* const neurons = weights.first(Role::ffn_bundle);
  return neurons == nullptr ? model.layers : static_cast<std::uint32_t>(neurons->layer);
}

// What Down's rows were multiplied with when they were packed: the gains of the norm before it.
std::function<const float*(int)> packed_gains(const WeightStore& weights, const Residency& residency, const ModelConfig& model) {
  if (!model.sub_norms || weights.find(Role::ffn_bundle, 0) == nullptr) return {};
  return [&](int layer) { return residency.view(weights.get(Role::ffn_sub_norm, layer)).as<float>(); };
}

// Rows of a prompt that go through a layer together; 0: a chunk at a time. Hidden states of that many rows are in DRAM beside the rest.
// `by_layer`: weights are read as a layer needs them, once for all rows that go through it together.
std::uint32_t prefill_span(const Memory& memory, const EngineConfig& engine, const ModelConfig& config, const PolicyLimits& limits,
                           Bytes kv, Bytes claimed, bool by_layer) {
  const std::uint32_t chunk = engine.prefill_chunk, kept = engine.kv.dram_tokens.value_or(0);
  const std::uint32_t wanted = std::min(limits.prompt_rows, engine.prefill_span == 0 ? limits.prompt_rows : engine.prefill_span);
  if (wanted <= chunk || engine.prefill_order == PrefillOrder::chunks) return 0;
  if (engine.prefill_order == PrefillOrder::layers) return wanted;
  if (!by_layer && (engine.kv.rule() == nullptr || limits.prompt_rows <= kept)) return 0;
  const Budget& dram = memory.budget(Placement::dram);
  const Bytes free = dram.limit - std::min(dram.limit, dram.used + claimed), row = Bytes{config.width} * engine.activations.block_bytes();
  const Bytes room = free < kv ? 0 : (free - kv) / 4;  // the rest is for what comes later: activations, caches of weights
  const auto rows = static_cast<std::uint32_t>(std::min<Bytes>(wanted, room / row));
  return rows == wanted ? wanted : rows / chunk > 1 ? rows / chunk * chunk : 0;
}

// The parts of fused operators are no operators of static graphs or GPUs: a core computes them, if the run has one.
void compute_parts_on_core(GraphCache& graphs, Fuse fuse, const Machine& machine, const UnitPlacement& placement) {
  const auto core = [](const ComputeUnit* unit) { return is_core(*unit); };
  const auto other = std::ranges::find_if_not(placement.units(), core);
  if (fuse == Fuse::all || other == placement.units().end()) return;
  for (const std::vector<ComputeUnit*>* units : {&placement.cores(), &machine.units}) {
    const auto found = std::ranges::find_if(*units, core);
    if (found != units->end()) return graphs.help_with(*found);
  }
  throw ConfigError(fmt::format("engine.graph.fuse: {} leaves operators that only cores have, and engine.placement.units has {} alone "
                                "(expected all, or a core beside it, such as cpu0)",
                                kFuseNames[static_cast<std::size_t>(fuse)], (*other)->caps().name));
}

TransformerOptions transformer_options(const EngineConfig& engine, const PolicyLimits& limits, const Decoder& decoder) {
  TransformerOptions options;
  options.placement = decoder.placement.get();
  options.embedding = decoder.embedding.get();
  options.adapters = decoder.adapters.get();
  options.products = engine.products.methods;
  options.fuse = engine.fuse;
  options.activations = engine.activations;
  options.matmul = engine.products.matmul;
  options.prefill_matmul = engine.products.prefill_matmul;
  options.accelerator_matmul = engine.placement.activations;
  options.attention = engine.attention.variant;
  options.kv_format = engine.kv.format;
  options.kv_per_query_head = engine.kv.per_query_head;
  options.kv_block_tokens = engine.kv.block_tokens;
  options.kv_keep = engine.kv.rule();
  options.kv_dram_tokens = engine.kv.dram_tokens.value_or(0);
  options.kv_sinks = engine.kv.sinks;
  options.kv_prefetch = engine.kv.prefetch;
  options.kv_checksums = engine.kv.checksums;
  options.max_rows = limits.max_rows;
  options.max_sampled = limits.max_sampled;
  options.max_tokens = limits.max_tokens;
  options.max_position = limits.max_position;
  options.sequences = limits.sequences;
  options.first_sequence = limits.first_sequence;
  options.graphs = engine.placement.graphs;
  options.report_active = !engine.record.empty();
  options.value = limits.value;
  return options;
}

}  // namespace

Bytes runtime_bytes(const ModelConfig& config, Bytes weight_bytes, std::size_t weights) {
  constexpr Bytes kPerToken = 64, kPerPage = 32, kPerWeight = 512;
  return config.vocab * kPerToken + weight_bytes / kPageSize * kPerPage + weights * kPerWeight;
}

Task<void> Decoder::load() {
  co_await residency->load();
  if (adapters != nullptr) co_await adapters->load();
  // A unit holds so many graphs and no more: one per layer before several.
  co_await transformer->load_attention_graphs();
  if (ffn.stage() != nullptr) co_await ffn.stage()->load();
  if (copy != nullptr) co_await copy->load();
  transformer->check_room();
  co_await transformer->load_listed_graphs();
  co_await transformer->measure_cores();
}

CacheStats Decoder::cache_stats() const {
  return ffn.stage() != nullptr && residency->neurons() != nullptr ? ffn.stage()->stats() : residency->stats();
}

Task<void> settled(Task<void> work, Decoder* decoder) {
  std::exception_ptr error;
  try {
    co_await std::move(work);
  } catch (...) {
    error = std::current_exception();
  }
  co_await decoder->transformer->settle();
  if (error) std::rethrow_exception(error);
}

Decoder make_decoder(Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& model,
                     const WeightStore& all_weights, const PolicyLimits& limits, const WeightStore* copy, const DecoderAdapters& adapters,
                     const Decoder* beside) {
  if (model.value_head && model.tied_embedding && !limits.value) {
    throw ConfigError(fmt::format("model: {} has a value head and no output.weight: it scores texts, and has no tokens to say "
                                  "(expected it as workload.scaling.scorer.gguf, without token)", model.name));
  }
  require_brought(engine.policies);
  Decoder decoder;
  decoder.graphs = std::make_unique<GraphCache>(machine, beside != nullptr ? beside->graphs.get() : nullptr);
  const Bytes own = runtime_bytes(model, all_weights.total_bytes(), all_weights.all().size());
  Result<Lease> runtime = machine.memory.lease(own, Placement::dram, Region::runtime);
  if (!runtime.ok()) throw ConfigError("memory.budget: " + runtime.status().message);
  decoder.runtime = std::move(runtime).value();
  if (engine.weights.embedding_in_flash) {
    check_embedding_in_flash(all_weights);
    decoder.in_dram = std::make_unique<WeightStore>(all_weights.without(Role::token_embedding));
  }
  const WeightStore& weights = decoder.in_dram ? *decoder.in_dram : all_weights;
  const Bytes kv = kv_bytes(model, engine.kv, limits);

  for (const PlacementConfig::Split& split : engine.placement.splits) check_by_layer(split, model);
  const PlacementKind& placement = *placement_kinds().find(engine.placement.kind);
  decoder.placement = placement.make({machine, engine.placement, engine.prefill_chunk, engine.products.methods.decode_rows,
                                      engine.kv.format, std::min(limits.max_sampled, limits.sequences), whole_ffns(weights, model)});
  const std::vector<ComputeUnit*>& units = decoder.placement->units();
  compute_parts_on_core(*decoder.graphs, engine.fuse, machine, *decoder.placement);

  const Bytes staged = decoder.placement->stages_kv() ? staging_bytes(model, engine.kv, limits) : 0;
  const Bytes copied = copy != nullptr ? bytes_of(*copy) : 0, later = kv + staged + copied;
  const WeightsSetup weights_setup{machine, weights, model, engine.weights, *decoder.placement, memory.ffn_in_dram, later};
  decoder.residency = weights_kinds().find(engine.weights.kind)->make(weights_setup, engine.ffn);
  check_parts(engine, *decoder.residency);
  if (copy != nullptr) decoder.copy = std::make_unique<DenseResidency>(machine, *copy);
  if (!adapters.all.empty()) {
    const bool by_neuron = decoder.residency->neurons() != nullptr;
    const LoraOptions options{engine.lora.order, by_neuron, adapters.neurons, packed_gains(weights, *decoder.residency, model)};
    decoder.adapters = std::make_unique<LoraBank>(machine, adapters.all, options);
  }
  const FfnSetup ffn_setup{machine,
                           *decoder.graphs,
                           weights,
                           model,
                           *decoder.residency,
                           *decoder.placement,
                           engine.products.matmul,
                           limits.max_rows,
                           engine.prefill_chunk,
                           decoder.adapters.get(),
                           engine.activations,
                           engine.placement.activations,
                           engine.products.prefill_matmul,
                           engine.products.methods.decode_rows};
  decoder.ffn = ffn_kinds().find(engine.ffn.kind)->make(ffn_setup, engine.ffn);

  if (const std::optional<MappedOperands> mapped = decoder.placement->mapped()) {
    decoder.mapped = mapped_bytes(*mapped, mapped->copy && copy != nullptr ? *copy : weights, mapped->kv ? kv : staged);
    check_sessions(engine.placement.sessions, mapped->unit->caps(), decoder.mapped, beside != nullptr ? beside->mapped : 0);
  }
  if (engine.weights.embedding_in_flash) {
    decoder.embedding =
        std::make_unique<EmbeddingRows>(machine, all_weights.get(Role::token_embedding), limits.max_rows, units.front()->caps().id);
  }
  TransformerOptions options = transformer_options(engine, limits, decoder);
  // A cache of weights takes all that is not kept free for what comes later; weights that stay come later, too.
  options.claimed = staged;
  if (decoder.residency->stays()) {
    options.claimed += bytes_of(weights) + copied;
  } else {
    options.kv_room = kv;
  }
  options.span = prefill_span(machine.memory, engine, model, limits, kv, options.claimed,
                              decoder.residency->expert_stats() != nullptr);
  if (decoder.copy != nullptr) options.copy = {copy, decoder.copy.get(), units.size() - 1};
  decoder.transformer =
      std::make_unique<Transformer>(machine, model, weights, *decoder.residency, *decoder.graphs, decoder.ffn, std::move(options));
  return decoder;
}

}  // namespace vitro
