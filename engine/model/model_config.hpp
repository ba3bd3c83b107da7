// The shapes and conventions of a decoder-only transformer: all that the engine needs to know of a family.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/contract.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

class Gguf;
class Reader;

struct RopeConfig {
  RopeStyle style = RopeStyle::interleaved;
  float base = 10000;
  std::uint32_t dims = 0;    // rotated dimensions per head
  float position_scale = 1;  // linear scaling: 1 / factor
};

// Key counts are in heads, sizes in elements.
struct ModelConfig {
  std::string family;  // "llama", "mistral", "mixtral", "qwen2", "qwen3", "bitnet"
  std::string name;
  std::uint32_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::uint32_t ffn = 0;  // hidden width of the FFN, or of one expert
  std::uint32_t vocab = 0, context = 0;
  std::uint32_t experts = 0, experts_used = 0;  // 0: dense FFN
  bool renormalise_experts = true;              // weights of the chosen experts sum to 1 (Mixtral)
  bool tied_embedding = false;
  bool qkv_bias = false;      // qwen2
  bool qk_norm = false;       // qwen3: an RMS norm of every head of q and of k before they are rotated
  bool sub_norms = false;     // bitnet: an RMS norm of the inputs of the output and the Down projection
  bool rope_factors = false;  // the file has frequency divisors (Llama 3.1 and later): Role::rope_factors
  std::uint32_t window = 0;   // sliding-window attention; 0: full
  float norm_eps = 1e-5f;
  Activation activation = Activation::silu;
  std::uint32_t predictor_rank = 0;  // of the predictors of firing neurons; 0: the model has none
  // A neuron is predicted to fire when its score is above the threshold of its layer (one for all: one entry).
  std::vector<float> predictor_thresholds{0};
  // PowerInfer's have a relu between their two matrices. Without it they approximate the Gate matrix, so the scores are
  // gates, and stand for |act(score)| unless the activation is a relu.
  bool predictor_relu = true;
  // |act(gate)| above which a neuron is worth computing, by layer; empty: 0. For activations that are never quite zero: CATS.
  std::vector<float> firing_thresholds;
  RopeConfig rope;

  std::uint32_t kv_width() const { return kv_heads * head_dim; }
  std::uint32_t q_width() const { return heads * head_dim; }
};

// Reads the metadata of architectures llama (Mistral and Mixtral files included), qwen2, qwen3, bitnet, bitnet-b1.58 and
// bitnet-25, and checks that every tensor of the model is there, with the shape that the metadata asks for, and that there is
// no other. Throws ConfigError.
ModelConfig config_from_gguf(const Gguf& gguf);

// A model without weights, from `shape:` of configs/models/*.yaml; the keys are the fields above. Throws ConfigError.
// Consumes every key of the reader and finishes it.
ModelConfig config_from_node(Reader& reader);

std::string_view to_string(Activation activation);

}  // namespace vitro
