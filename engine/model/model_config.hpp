// The shapes and conventions of a decoder-only transformer: all that the engine needs to know of a family.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/input_order.hpp"
#include "engine/model/model_family.hpp"
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
  // LongRoPE (Ding et al. 2024) as Phi-3.5-MoE has it: which divisors hold follows from the longest sequence of a run, and rotated queries
  // and keys are both multiplied by a factor.
  std::uint32_t original_context = 0;  // longest sequence of the short divisors; 0: there is one kind, or none
  float attention_factor = 1;          // only where all dimensions of a head turn
};

// Key counts are in heads, sizes in elements.
struct ModelConfig {
  std::string family;  // "llama", "mistral", "mixtral", and the names of model_families()
  std::string name;
  std::uint32_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::uint32_t ffn = 0;  // hidden width of the FFN, or of one expert
  std::uint32_t vocab = 0, context = 0;
  std::uint32_t experts = 0, experts_used = 0;  // 0: dense FFN
  bool renormalise_experts = true;              // weights of the chosen experts sum to 1 (Mixtral)
  ops::Scores router = ops::Scores::softmax;
  float expert_scale = 1;                           // times the weights of the chosen experts
  std::uint32_t dense_layers = 0, dense_ffn = 0;    // the first layers of a mixture have one FFN of this width (DeepSeek)
  std::uint32_t shared_ffn = 0;                     // width of the FFN that every row passes beside its experts; 0: none
  bool shared_gate = false;                         // whose result is multiplied by sigmoid(w x) (Qwen1.5-MoE)
  Norm norm = Norm::rms;
  bool tied_embedding = false;
  bool qkv_bias = false;                            // qwen2
  bool attn_output_bias = false, output_bias = false;  // phimoe
  bool joined_qkv = false, joined_gate_up = false;     // one matrix for q, k and v, and one for Gate and Up (phi3)
  QkNorm qk_norm = QkNorm::none;
  bool sub_norms = false;               // bitnet: an RMS norm of the inputs of the output and the Down projection
  bool rope_factors = false;            // the file has frequency divisors (Llama 3.1 and later): Role::rope_factors
  bool rope_factors_by_length = false;  // two kinds of them: Role::rope_factors_short and _long
  bool value_head = false;              // a reward model: the file has cls.output.weight, and with value_bias cls.output.bias
  bool value_bias = false;
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
  std::vector<InputOrder> orders;  // products whose columns stand in an order of their own; by layer, then as they are computed
  RopeConfig rope;

  std::uint32_t kv_width() const { return kv_heads * head_dim; }
  std::uint32_t q_width() const { return heads * head_dim; }
  std::uint32_t qkv_width() const { return q_width() + 2 * kv_width(); }
  // Whether a run whose longest sequence has so many positions takes the divisors for long ones (LongRoPE).
  bool turns_as_long(std::uint32_t positions) const { return rope_factors_by_length && positions > rope.original_context; }
  bool has_experts(int layer) const { return experts > 0 && layer >= static_cast<int>(dense_layers); }
  // Whether an engine that computes neuron by neuron does so in this layer: a mixture's dense ones stay whole.
  bool has_neurons(int layer) const { return experts == 0 || has_experts(layer); }
  // Hidden width of a layer's FFN, or of one of its experts.
  std::uint32_t ffn_of(int layer) const { return experts > 0 && !has_experts(layer) ? dense_ffn : ffn; }
};

// Reads the metadata of the architectures of model_families(), and checks that every tensor of the model is there, with the shape that
// the metadata asks for, and that there is no other. A value head is read as
// llama.cpp's converter writes it for reward models: one row of `cls.output`, pooling_type 4 (rank) or none stated. Throws ConfigError.
ModelConfig config_from_gguf(const Gguf& gguf);

// A model without weights, from `shape:` of configs/models/*.yaml; the keys are the fields above. Throws ConfigError.
// Consumes every key of the reader and finishes it.
ModelConfig config_from_node(Reader& reader);

std::string_view to_string(Activation activation);

}  // namespace vitro
