#include "engine/app/run_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "engine/base/file.hpp"
#include "engine/base/hash.hpp"
#include "engine/ops/product_contract.hpp"

namespace vitro {
namespace {

constexpr Bytes kSamples = 256;  // pages of a file of weights, evenly spread

Origin place_of(const Experiment& experiment, const char* key) {
  const Node* named = experiment.resolved.find_path(key);
  return named != nullptr ? named->origin() : Origin();
}

void require_file(const Experiment& experiment, const char* key, const std::string& path) {
  const Origin at = place_of(experiment, key);
  std::error_code unseen;
  if (std::filesystem::is_directory(path, unseen)) fail_at(at, key, fmt::format("{} is a folder (expected a file to write)", path));
  try {
    const OutputFile leaves_nothing(path);
  } catch (const ConfigError& error) {
    fail_at(at, key, error.what());
  }
}

void require_folder(const Experiment& experiment, const char* key, const std::string& path) {
  const Origin at = place_of(experiment, key);
  std::error_code unseen;
  if (!std::filesystem::is_directory(path, unseen)) fail_at(at, key, fmt::format("{} is not a folder (expected one to write to)", path));
  try {
    const OutputFile leaves_nothing(path + "/vitro-scratch");
  } catch (const ConfigError& error) {
    fail_at(at, key, fmt::format("{} can not be written to: {}", path, error.what()));
  }
}

void add_file(Hash& hash, const std::string& path) {
  const InputFile file(path);
  hash.add(std::uint64_t{file.size()});
  std::vector<std::byte> page(std::min(kPageSize, file.size()));
  const Bytes rest = file.size() - page.size();
  for (Bytes i = 0; i < kSamples; ++i) {
    file.read_at(rest / (kSamples - 1) * i, page);
    hash.add(page);
  }
}

}  // namespace

void require_outputs(const Experiment& experiment) {
  const std::string& record = experiment.engine.record;
  const Workload& workload = experiment.workload;
  if (!record.empty()) {
    if (workload.products || workload.softmax) {
      fail_at(place_of(experiment, "engine.record"), "engine.record",
              fmt::format("workload.{} has nothing to record", workload.softmax ? "softmax" : "products"));
    }
    require_file(experiment, "engine.record", record);
  }
  if (!workload.save_kv.empty()) require_file(experiment, "workload.save_kv", workload.save_kv);
  if (!experiment.engine.kv.scratch.empty()) require_folder(experiment, "engine.kv.scratch", experiment.engine.kv.scratch);
}

SequenceOrigin sequence_origin(const Experiment& experiment, const ModelConfig& config, std::uint32_t longest) {
  const EngineConfig& engine = experiment.engine;
  Hash model, contracts;
  add_file(model, experiment.model.gguf);
  const std::vector<std::uint32_t>& adapters = experiment.workload.requests.front().adapters;
  if (!adapters.empty() && adapters.front() > 0) {  // 0: the base alone
    const AdapterConfig& adapter = engine.lora.adapters.at(adapters.front() - 1);
    add_file(model, adapter.file);
    model.add(std::bit_cast<std::uint64_t>(adapter.strength));
    contracts.add(static_cast<std::uint64_t>(engine.lora.order));
  }
  for (const VariantId variant : {engine.products.matmul, engine.products.prefill_matmul, engine.attention.variant}) {
    contracts.add(static_cast<std::uint64_t>(variant));
  }
  if (engine.placement.activations != VariantId::none) {
    contracts.add(static_cast<std::uint64_t>(engine.placement.activations));
    contracts.add(kContractRule);
  }
  if (config.rope_factors_by_length) contracts.add(config.turns_as_long(longest) ? 2 : 1);
  return {model.value(), contracts.value()};
}

}  // namespace vitro
