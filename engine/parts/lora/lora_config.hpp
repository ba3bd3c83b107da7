// `engine.lora:` adapters beside one base, and how their bypasses are multiplied (MNN-LLM 5.5).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/graph/lora_pass.hpp"
#include "engine/model/lora_adapter.hpp"

namespace vitro {

// What a workload calls the base without an adapter.
inline constexpr std::string_view kNoAdapter = "none";

struct AdapterConfig {
  std::string name;
  std::string file;                // a GGUF adapter, or
  std::optional<LoraShape> shape;  // shapes alone, for a base without weights
  double strength = 1;             // times alpha / rank
};

struct LoraConfig {
  std::vector<AdapterConfig> adapters;
  LoraOrder order = LoraOrder::a_bx;

  // "none", then the adapters in their order: the number of an adapter is its place here.
  std::vector<std::string> names() const;
};

LoraConfig read_lora(Reader reader);

}  // namespace vitro
