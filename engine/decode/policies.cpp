#include "engine/decode/policies.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/decode/mmap_residency.hpp"
#include "engine/decode/offload_unit.hpp"
#include "engine/decode/stream_residency.hpp"
#include "engine/ffn/cluster_policy.hpp"
#include "engine/moe/moe_policy.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

// Policies that give an accelerator whole operators and keep the rest on cores.
bool beside_cores(std::string_view policy) { return policy == "npu_dense" || policy == "llm_npu"; }

std::vector<ComputeUnit*> select_units(const Machine& machine, const EngineConfig& engine) {
  if (engine.units.empty()) {
    std::vector<ComputeUnit*> cores;
    for (ComputeUnit* unit : machine.units) {
      if (unit->caps().name.starts_with("cpu") && cores.size() < engine.threads) cores.push_back(unit);
    }
    if (cores.size() < engine.threads) {
      throw ConfigError(fmt::format("engine.threads: {} are asked for, but the machine has {} cores", engine.threads, cores.size()));
    }
    return cores;
  }
  std::vector<ComputeUnit*> units;
  for (const std::string& name : engine.units) {
    const auto found =
        std::find_if(machine.units.begin(), machine.units.end(), [&](const ComputeUnit* u) { return u->caps().name == name; });
    if (found == machine.units.end()) {
      std::vector<std::string> known;
      for (const ComputeUnit* unit : machine.units) known.push_back(unit->caps().name);
      throw ConfigError(
          fmt::format("engine.units: there is no \"{}\" on this machine (expected some of: {})", name, fmt::join(known, ", ")));
    }
    if (std::find(units.begin(), units.end(), *found) != units.end())
      throw ConfigError(fmt::format("engine.units: \"{}\" is named twice", name));
    if ((*found)->caps().static_graphs && engine.policy != "qnn" && engine.policy != "dense" && !beside_cores(engine.policy)) {
      throw ConfigError(
          fmt::format("engine.units: {} runs loaded graphs only, and the {} policy makes none (expected cores)", name, engine.policy));
    }
    units.push_back(*found);
  }
  return units;
}

// The dense policy's units. An accelerator among them takes the products of the one core beside it, which `offload` then stands for.
std::vector<ComputeUnit*> dense_units(Machine& machine, std::vector<ComputeUnit*> units, std::unique_ptr<ComputeUnit>& offload) {
  const auto first = std::stable_partition(units.begin(), units.end(), [](const ComputeUnit* unit) { return !unit->caps().static_graphs; });
  const std::vector<ComputeUnit*> accelerators(first, units.end());
  units.erase(first, units.end());
  if (accelerators.empty()) return units;
  const std::string& name = accelerators.front()->caps().name;
  if (accelerators.size() > 1) {
    throw ConfigError(fmt::format("engine.units: {} and {} (expected one accelerator)", name, accelerators[1]->caps().name));
  }
  if (units.empty() && machine.units.front()->caps().name.starts_with("cpu")) units.push_back(machine.units.front());
  if (units.empty()) throw ConfigError(fmt::format("engine.units: {} alone (expected a core beside it, such as cpu0)", name));
  if (units.size() > 1) {
    throw ConfigError(fmt::format("engine.units: {} cores beside {} (expected one: the policy splits operators, not rows, between them)",
                                  units.size(), name));
  }
  offload = std::make_unique<OffloadUnit>(machine, *units.front(), *accelerators.front());
  return {offload.get()};
}

// Cores, then the one accelerator, and what it takes. npu_dense: all of the layers; the output matrix is left to the cores, since
// logits are large and a session's address space is not (TTS-NPU 7.2.2). llm_npu: the products of a prompt; attention, what
// follows the prompt, and the channels with outliers stay on the cores (T-MAN 3).
void beside_accelerator(const EngineConfig& engine, std::vector<ComputeUnit*> units, TransformerOptions& options) {
  const auto first = std::stable_partition(units.begin(), units.end(), [](const ComputeUnit* unit) { return !unit->caps().static_graphs; });
  if (units.end() - first != 1 || first == units.begin()) {
    throw ConfigError(fmt::format("engine.units: {} and {} for the {} policy (expected cores and one accelerator)", first - units.begin(),
                                  units.end() - first, engine.policy));
  }
  options.accelerator.unit = *first;
  if (engine.policy == "npu_dense") {
    options.accelerator.splits = {{~0u, 1, 1, 0}};
  } else {
    const double share = 1 - engine.outliers;
    options.accelerator.splits = {{engine.products.decode_rows, 0, 0, 0}, {~0u, share, share, 0, 0.0}};
  }
  options.units = std::move(units);
}

// Bytes that an accelerator has to map: the weights of layers in its form, and keys and values.
void check_sessions(const EngineConfig& engine, const ComputeUnit& accelerator, const WeightStore& weights, Bytes kv, bool head) {
  const Bytes limit = accelerator.caps().session_limit;
  if (limit == 0 || engine.sessions == 0) return;
  Bytes mapped = kv;
  for (const Weight& weight : weights.all())
    mapped += weight.layer >= 0 || (head && weight.role != Role::token_embedding) ? weight.extent.length : 0;
  if (head && weights.find(Role::output) == nullptr) mapped += weights.get(Role::token_embedding).extent.length;
  if (mapped <= engine.sessions * limit) return;
  throw ConfigError(fmt::format("engine.sessions: {} of {} map {}, and the weights and the KV cache of {} are {} (expected {} or more)",
                                engine.sessions, accelerator.caps().name, format_bytes(engine.sessions * limit), accelerator.caps().name,
                                format_bytes(mapped), (mapped + limit - 1) / limit));
}

Bytes kv_bytes(const ModelConfig& config, const EngineConfig& engine, const PolicyLimits& limits) {
  const std::uint32_t heads = engine.kv_per_query_head ? config.heads : config.kv_heads;
  const Bytes position = Bytes{config.layers} * heads * kv_pair_bytes(engine.kv_format, config.head_dim);
  const KvShape shape{config.layers, heads, config.head_dim, engine.kv_block_tokens, engine.kv_format, engine.kv_dram_tokens};
  const Bytes block = in_whole_pages(shape).block_tokens, raised = block - engine.kv_block_tokens;  // max_tokens knows what was asked for
  const Bytes all = round_up(limits.max_tokens + 2 * limits.sequences * raised, block) * position;
  if (!engine.kv_dram_tokens) return all;
  // Beside what stays: what this step and the one before computed, tails, and one layer of the rest.
  const Bytes in_dram = limits.sequences * (*engine.kv_dram_tokens + 2 * block) + 2 * limits.max_rows;
  return std::min(all, in_dram * position + all / config.layers);
}

// Only cores attend to keys and values in flash, and to those in int8 and fp8.
void check_attending(const EngineConfig& engine, const std::vector<ComputeUnit*>& units) {
  for (const ComputeUnit* unit : units) {
    const std::string& name = unit->caps().name;
    if (name.starts_with("cpu")) continue;
    if (engine.kv_dram_tokens) {
      throw ConfigError(fmt::format("engine.kv_dram_tokens: {} does not attend to keys and values in flash (expected cores alone)", name));
    }
    if (engine.kv_format == Format::int8_fp8) {
      throw ConfigError(fmt::format("engine.kv_format: {} does not read int8_fp8 (expected f32 or f16, or cores alone)", name));
    }
  }
}

// Rows of an embedding can be read one by one where it is nothing else.
void check_embedding_in_flash(const EngineConfig& engine, const WeightStore& weights) {
  if (weights.find(Role::output) == nullptr) {
    throw ConfigError(
        "engine.embedding: flash saves nothing here: the model's output matrix is its embedding (tied), and every token reads all of "
        "it (expected dram)");
  }
  if (engine.policy == "mmap") throw ConfigError("engine.embedding: flash is what the mmap policy does with every weight (expected dram)");
}

ComputeUnit* unit_named(const Machine& machine, const std::string& name, std::string_view key) {
  for (ComputeUnit* unit : machine.units) {
    if (unit->caps().name == name) return unit;
  }
  throw ConfigError(fmt::format("{}: there is no \"{}\" on this machine", key, name));
}

}  // namespace

Bytes runtime_bytes(const ModelConfig& config, Bytes weight_bytes, std::size_t weights) {
  constexpr Bytes kPerToken = 64, kPerPage = 32, kPerWeight = 512;
  return config.vocab * kPerToken + weight_bytes / kPageSize * kPerPage + weights * kPerWeight;
}

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> kPolicies = [] {
    std::vector<PolicyInfo> all{
        {"dense", "all weights in DRAM, every matrix computed whole, split over the chosen units"},
        {"mmap", "weights paged in on demand (4 KiB, LRU, read-ahead); a fault blocks the core that computes, as in llama.cpp"},
        {"qnn", "dense matrices on the NPU as graphs; FFNs that do not fit are read matrix by matrix before they are computed"},
        {"gpu_dense", "dense matrices on the GPU, all weights in DRAM, as MLC-LLM"},
        {"npu_dense", "layers on the NPU, all weights in DRAM; the output matrix on the cores, as in TTS-NPU"},
        {"llm_npu", "a prompt's products on the NPU in int8, beside cores that take outliers and attention; decoding on the cores alone"}};
    for (const ClusterFamily& family : cluster_families()) all.push_back({family.policy, family.description});
    for (const MoeFamily& family : moe_families()) all.push_back({family.policy, family.description});
    return all;
  }();
  return kPolicies;
}

Policy make_policy(Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& config,
                   const WeightStore& all_weights, const PolicyLimits& limits, const WeightStore* copy) {
  Policy policy;
  policy.graphs = std::make_unique<GraphCache>(machine);
  const Bytes own = runtime_bytes(config, all_weights.total_bytes(), all_weights.all().size());
  Result<Lease> runtime = machine.memory.lease(own, Placement::dram, Region::runtime);
  if (!runtime.ok()) throw ConfigError("memory.budget: " + runtime.status().message);
  policy.runtime = std::move(runtime).value();
  if (engine.embedding_in_flash) {
    check_embedding_in_flash(engine, all_weights);
    policy.in_dram = std::make_unique<WeightStore>(all_weights.without(Role::token_embedding));
  }
  const WeightStore& weights = policy.in_dram ? *policy.in_dram : all_weights;
  MoeParts moe;

  if (find_cluster_family(engine.policy) == nullptr && weights.find(Role::ffn_bundle, 0) != nullptr) {
    throw ConfigError(
        fmt::format("engine.policy: {} reads whole matrices, but the FFN is stored as neuron bundles (expected layout rows "
                    "or tiled)",
                    engine.policy));
  }
  const bool mixture = find_moe_family(engine.policy) != nullptr;
  if (engine.policy == "dense" || engine.policy == "gpu_dense" || beside_cores(engine.policy) || mixture) {
    if (memory.ffn_in_dram.value_or(1) < 1) {
      throw ConfigError(fmt::format("memory.ffn_in_dram: the {} policy keeps all weights in DRAM (expected 100%, or engine.policy: mmap)",
                                    engine.policy));
    }
    if (mixture) {
      moe = make_moe_policy(machine, engine, config, weights, select_units(machine, engine), limits.max_rows);
      policy.residency = std::move(moe.residency);
      policy.experts = &moe.experts->stats();
      policy.ffn = std::move(moe.experts);
    } else {
      policy.residency = std::make_unique<DenseResidency>(machine, weights);
    }
    if (copy != nullptr) policy.copy = std::make_unique<DenseResidency>(machine, *copy);
  } else if (engine.policy == "mmap") {
    policy.residency = std::make_unique<MmapResidency>(
        machine, weights, MmapOptions{engine.read_ahead, memory.ffn_in_dram, kv_bytes(config, engine, limits)});
  } else if (engine.policy == "qnn") {
    if (engine.units.size() != 1) throw ConfigError("engine.units: the qnn policy computes on one unit (expected one name)");
    policy.residency = std::make_unique<StreamResidency>(
        machine, weights, StreamOptions{memory.ffn_in_dram, kv_bytes(config, engine, limits), machine.units.front()->caps().id});
  } else if (find_cluster_family(engine.policy) != nullptr) {
    ClusterSetup setup{select_units(machine, engine)};
    const std::string &io_core = engine.clusters.io_core, &accelerator = engine.hybrid.unit;
    setup.io_core = io_core.empty() ? setup.units.back() : unit_named(machine, io_core, "engine.clusters.io_core");
    if (!accelerator.empty()) setup.accelerator = unit_named(machine, accelerator, "engine.hybrid.unit");
    setup.max_rows = limits.max_rows;
    setup.keep_free = kv_bytes(config, engine, limits);
    ClusterParts parts = make_cluster_policy(machine, *policy.graphs, engine, memory, config, weights, std::move(setup));
    policy.residency = std::move(parts.residency);
    policy.ffn = std::move(parts.ffn);
  } else {
    std::vector<std::string_view> names;
    for (const PolicyInfo& info : policies()) names.push_back(info.name);
    throw ConfigError(fmt::format("engine.policy: \"{}\" is not known (expected one of: {})", engine.policy, fmt::join(names, ", ")));
  }

  TransformerOptions options;
  options.units = select_units(machine, engine);
  if (engine.policy == "dense") options.units = dense_units(machine, std::move(options.units), policy.offload);
  if (const HybridConfig& hybrid = engine.hybrid; !hybrid.unit.empty()) {
    options.accelerator.unit = unit_named(machine, hybrid.unit, "engine.hybrid.unit");
    options.units.push_back(options.accelerator.unit);
    for (const HybridConfig::Split& split : hybrid.splits)
      options.accelerator.splits.push_back({split.batch, split.attention, split.hot, split.head});
    if (hybrid.prefill) options.accelerator.splits.push_back({~0u, 1, 1, hybrid.splits.back().head});
  }
  if (beside_cores(engine.policy)) beside_accelerator(engine, std::move(options.units), options);
  if (mixture) {
    set_units(moe, engine.prefill_chunk, std::move(options.units), options);
    policy.offload = std::move(moe.attention);
  }
  const Bytes kv = kv_bytes(config, engine, limits);
  if (engine.policy == "qnn") check_sessions(engine, *options.units.front(), weights, kv, true);
  if (beside_cores(engine.policy)) {
    const bool prompts = engine.policy == "llm_npu";  // keys and values stay with the cores
    check_sessions(engine, *options.accelerator.unit, prompts && copy != nullptr ? *copy : weights, prompts ? 0 : kv, false);
  }
  std::vector<ComputeUnit*> used = options.units;
  if (policy.offload != nullptr) used = select_units(machine, engine);
  check_attending(engine, used);
  if (engine.embedding_in_flash) {
    policy.embedding =
        std::make_unique<EmbeddingRows>(machine, all_weights.get(Role::token_embedding), limits.max_rows, options.units.front()->caps().id);
    options.embedding = policy.embedding.get();
  }
  if (policy.copy != nullptr) options.copy = {copy, policy.copy.get(), options.units.size() - 1};
  options.products = engine.products;
  options.matmul = engine.matmul;
  options.prefill_matmul = engine.prefill_matmul;
  options.attention = engine.attention;
  options.kv_format = engine.kv_format;
  options.kv_per_query_head = engine.kv_per_query_head;
  options.kv_block_tokens = engine.kv_block_tokens;
  options.kv_dram_tokens = engine.kv_dram_tokens;
  options.kv_prefetch = engine.kv_prefetch;
  options.max_rows = limits.max_rows;
  options.max_sampled = limits.max_sampled;
  options.max_tokens = limits.max_tokens;
  options.max_position = limits.max_position;
  options.sequences = limits.sequences;
  options.report_active = !engine.record.empty();
  policy.transformer =
      std::make_unique<Transformer>(machine, config, weights, *policy.residency, *policy.graphs, policy.ffn.get(), std::move(options));
  if (mixture) load_with(*policy.residency, *policy.transformer);
  return policy;
}

}  // namespace vitro
