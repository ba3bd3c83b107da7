// What the `engine:` and `memory:` parts of an experiment may say: a section for each kind of part.
#pragma once
#include <optional>
#include <string>

#include "engine/graph/graph_options.hpp"
#include "engine/parts/attention/attention_config.hpp"
#include "engine/parts/brought_policies.hpp"
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

// How a prompt's rows go through the layers: chunk by chunk through all of them; all chunks through each; or that where it reads flash less
// because keys and values leave DRAM, as many rows together as memory has room for.
enum class PrefillOrder : std::uint8_t { chunks, layers, automatic };

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
  Fuse fuse = Fuse::all;             // `engine.graph.fuse`
  Format activations = Format::f32;  // `engine.graph.activations`: or f16
  std::uint32_t prefill_chunk = 128;
  PrefillOrder prefill_order = PrefillOrder::automatic;
  std::uint32_t prefill_span = 0;  // most rows that go through a layer together; 0: the whole prompt
  FunctionKind function = FunctionKind::compute;
  std::vector<BroughtPolicy> policies;  // beside the registered parts
  std::string record, replay;  // recordings to write, to read
  bool numerics() const { return function == FunctionKind::compute; }
};

struct MemoryConfig {
  std::optional<Bytes> budget;        // of everything in DRAM
  std::optional<double> ffn_in_dram;  // share of FFN bytes that may be cached; exclusive with budget
  bool lock = false;                  // host: what is leased is locked, so that the system never takes it back
};

}  // namespace vitro
