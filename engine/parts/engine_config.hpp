// What the `engine:` and `memory:` parts of an experiment may say: a section for each kind of part.
#pragma once
#include <optional>
#include <string>

#include "engine/parts/attention/attention_config.hpp"
#include "engine/parts/ffn/experts/moe_config.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_config.hpp"
#include "engine/parts/lora/lora_config.hpp"
#include "engine/parts/placement/placement_config.hpp"
#include "engine/parts/products/products_config.hpp"
#include "engine/parts/weights/weights_config.hpp"

namespace vitro {

// `engine.ffn:` who computes FFNs.
struct FfnConfig {
  std::string kind = "dense";
  ClusterConfig clusters;
  MoeConfig experts;
};

enum class FunctionKind : std::uint8_t { compute, replay, draw };

struct EngineConfig {
  std::string policy = "dense";  // the composition that the sections started from
  WeightsConfig weights;
  FfnConfig ffn;
  AttentionConfig attention;
  KvConfig kv;
  PlacementConfig placement;
  ProductsConfig products;
  LoraConfig lora;
  std::uint32_t prefill_chunk = 128;
  FunctionKind function = FunctionKind::compute;
  std::string record, replay;  // recordings to write, to read
  bool numerics() const { return function == FunctionKind::compute; }
};

struct MemoryConfig {
  std::optional<Bytes> budget;        // of everything in DRAM
  std::optional<double> ffn_in_dram;  // share of FFN bytes that may be cached; exclusive with budget
};

}  // namespace vitro
