#include "engine/decode/policies.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/decode/mmap_residency.hpp"

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
    if ((*found)->caps().static_graphs) {
      throw ConfigError(
          fmt::format("engine.units: {} runs loaded graphs only, and the {} policy makes none (expected cores)", name, engine.policy));
    }
    units.push_back(*found);
  }
  return units;
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

}  // namespace

const std::vector<PolicyInfo>& policies() {
  static const std::vector<PolicyInfo> kPolicies{
      {"dense", "all weights in DRAM, every matrix computed whole, split over the chosen units"},
      {"mmap", "weights paged in on demand (4 KiB, LRU, read-ahead); a fault blocks the core that computes, as in llama.cpp"}};
  return kPolicies;
}

Policy make_policy(Machine& machine, const EngineConfig& engine, const MemoryConfig& memory, const ModelConfig& config,
                   const WeightStore& weights, const PolicyLimits& limits) {
  Policy policy;
  Result<Lease> runtime = machine.memory.lease(runtime_bytes(config, weights), Placement::dram, Region::runtime);
  if (!runtime.ok()) throw ConfigError("memory.budget: " + runtime.status().message);
  policy.runtime = std::move(runtime).value();

  if ((engine.policy == "dense" || engine.policy == "mmap") && weights.find(Role::ffn_bundle, 0) != nullptr) {
    throw ConfigError(fmt::format("engine.policy: {} reads whole matrices, but the FFN is stored as neuron bundles (expected layout rows "
                                  "or tiled)", engine.policy));
  }
  if (engine.policy == "dense") {
    if (memory.ffn_in_dram.value_or(1) < 1) {
      throw ConfigError("memory.ffn_in_dram: the dense policy keeps all weights in DRAM (expected 100%, or engine.policy: mmap)");
    }
    policy.residency = std::make_unique<DenseResidency>(machine, weights);
  } else if (engine.policy == "mmap") {
    policy.residency = std::make_unique<MmapResidency>(
        machine, weights, MmapOptions{engine.read_ahead, memory.ffn_in_dram, kv_bytes(config, engine, limits.max_tokens)});
  } else {
    std::vector<std::string_view> names;
    for (const PolicyInfo& info : policies()) names.push_back(info.name);
    throw ConfigError(fmt::format("engine.policy: \"{}\" is not known (expected one of: {})", engine.policy, fmt::join(names, ", ")));
  }

  TransformerOptions options;
  options.units = select_units(machine, engine);
  options.matmul = engine.matmul;
  options.kv_format = engine.kv_format;
  options.kv_block_tokens = engine.kv_block_tokens;
  options.max_rows = limits.max_rows;
  options.max_sampled = limits.max_sampled;
  options.max_tokens = limits.max_tokens;
  options.max_position = limits.max_position;
  options.report_active = !engine.record.empty();
  policy.transformer = std::make_unique<Transformer>(machine, config, weights, *policy.residency, std::move(options));
  return policy;
}

}  // namespace vitro
