#include "engine/decode/policies.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/decode/mmap_residency.hpp"
#include "engine/decode/offload_unit.hpp"
#include "engine/decode/stream_residency.hpp"
#include "engine/ffn/cluster_policy.hpp"

namespace vitro {
namespace {

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
    if ((*found)->caps().static_graphs && engine.policy != "qnn" && engine.policy != "dense") {
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

// What the engine keeps beside weights and activations: names, extents and page records. Charged so that the budget is
// that of the whole process.
Bytes runtime_bytes(const ModelConfig& config, const WeightStore& weights) {
  constexpr Bytes kPerToken = 64, kPerPage = 32, kPerWeight = 512;
  return config.vocab * kPerToken + weights.total_bytes() / kPageSize * kPerPage + weights.all().size() * kPerWeight;
}

Bytes kv_bytes(const ModelConfig& config, const EngineConfig& engine, std::uint32_t tokens) {
  const Bytes element = engine.kv_format == Format::f16 ? 2 : 4;
  return round_up(tokens, engine.kv_block_tokens) * config.layers * 2 * config.kv_width() * element;
}

ComputeUnit* unit_named(const Machine& machine, const std::string& name, std::string_view key) {
  for (ComputeUnit* unit : machine.units) {
    if (unit->caps().name == name) return unit;
  }
  throw ConfigError(fmt::format("{}: there is no \"{}\" on this machine", key, name));
}

}  // namespace

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> kPolicies = [] {
    std::vector<PolicyInfo> all{
        {"dense", "all weights in DRAM, every matrix computed whole, split over the chosen units"},
        {"mmap", "weights paged in on demand (4 KiB, LRU, read-ahead); a fault blocks the core that computes, as in llama.cpp"},
        {"qnn", "dense matrices on the NPU as graphs; FFNs that do not fit are read matrix by matrix before they are computed"},
        {"gpu_dense", "dense matrices on the GPU, all weights in DRAM, as MLC-LLM"}};
    for (const ClusterFamily& family : cluster_families()) all.push_back({family.policy, family.description});
    return all;
  }();
  return kPolicies;
}

Policy make_policy(Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& config,
                   const WeightStore& weights, const PolicyLimits& limits) {
  Policy policy;
  policy.graphs = std::make_unique<GraphCache>(machine);
  Result<Lease> runtime = machine.memory.lease(runtime_bytes(config, weights), Placement::dram, Region::runtime);
  if (!runtime.ok()) throw ConfigError("memory.budget: " + runtime.status().message);
  policy.runtime = std::move(runtime).value();

  if (find_cluster_family(engine.policy) == nullptr && weights.find(Role::ffn_bundle, 0) != nullptr) {
    throw ConfigError(
        fmt::format("engine.policy: {} reads whole matrices, but the FFN is stored as neuron bundles (expected layout rows "
                    "or tiled)",
                    engine.policy));
  }
  if (engine.policy == "dense" || engine.policy == "gpu_dense") {
    if (memory.ffn_in_dram.value_or(1) < 1) {
      throw ConfigError(fmt::format("memory.ffn_in_dram: the {} policy keeps all weights in DRAM (expected 100%, or engine.policy: mmap)",
                                    engine.policy));
    }
    policy.residency = std::make_unique<DenseResidency>(machine, weights);
  } else if (engine.policy == "mmap") {
    policy.residency = std::make_unique<MmapResidency>(
        machine, weights, MmapOptions{engine.read_ahead, memory.ffn_in_dram, kv_bytes(config, engine, limits.max_tokens)});
  } else if (engine.policy == "qnn") {
    if (engine.units.size() != 1) throw ConfigError("engine.units: the qnn policy computes on one unit (expected one name)");
    policy.residency = std::make_unique<StreamResidency>(
        machine, weights, StreamOptions{memory.ffn_in_dram, kv_bytes(config, engine, limits.max_tokens), machine.units.front()->caps().id});
  } else if (find_cluster_family(engine.policy) != nullptr) {
    ClusterSetup setup{select_units(machine, engine)};
    const std::string &io_core = engine.clusters.io_core, &accelerator = engine.hybrid.unit;
    setup.io_core = io_core.empty() ? setup.units.back() : unit_named(machine, io_core, "engine.clusters.io_core");
    if (!accelerator.empty()) setup.accelerator = unit_named(machine, accelerator, "engine.hybrid.unit");
    setup.max_rows = limits.max_rows;
    setup.keep_free = kv_bytes(config, engine, limits.max_tokens);
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
  options.matmul = engine.matmul;
  options.kv_format = engine.kv_format;
  options.kv_block_tokens = engine.kv_block_tokens;
  options.max_rows = limits.max_rows;
  options.max_sampled = limits.max_sampled;
  options.max_tokens = limits.max_tokens;
  options.max_position = limits.max_position;
  options.report_active = !engine.record.empty();
  policy.transformer =
      std::make_unique<Transformer>(machine, config, weights, *policy.residency, *policy.graphs, policy.ffn.get(), std::move(options));
  return policy;
}

}  // namespace vitro
