// What a tensor of a model is for, and the name that GGUF files give it (llama.cpp, gguf-py/gguf/constants.py, TENSOR_NAMES).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace vitro {

enum class Role : std::uint8_t {
  token_embedding,
  output_norm,
  output,
  rope_factors,  // of the model: layer is -1
  attn_norm,
  attn_q,
  attn_k,
  attn_v,
  attn_q_bias,
  attn_k_bias,
  attn_v_bias,
  attn_output,
  attn_q_norm,
  attn_k_norm,  // of one head's size, the same for all heads; or of all heads together (QkNorm)
  attn_sub_norm,
  ffn_sub_norm,  // of what attn_output and ffn_down read
  ffn_norm,
  ffn_gate,
  ffn_up,
  ffn_down,  // with experts: one matrix per expert, one after the other
  router,
  ffn_bundle,  // gate, up and down neuron by neuron, in place of the three
  ffn_scales,  // of bundles of nibbles: those of all gate rows, then up, then down
  // Which neurons fire: scores = out relu(in x) (PowerInfer's fc1 and fc2), rows of `out` in the order of the neurons.
  predictor_in,
  predictor_out,
  // Biases of Norm::layer, of the attention's output and of the logits (Phi-3.5-MoE).
  output_norm_bias,
  attn_norm_bias,
  ffn_norm_bias,
  attn_output_bias,
  output_bias,
  // Frequency divisors for sequences up to ModelConfig::rope.original_context, and for longer ones.
  rope_factors_short,
  rope_factors_long,
  // The FFN that every row passes beside its experts; a vector whose product with the row gates it.
  shared_gate,
  shared_up,
  shared_down,
  shared_router,
  // Of a reward model: one row, whose product with the last hidden state is a text's value.
  value_head,
  value_bias,
  // Several matrices as one, the rows of one behind those of another: q, k and v; Gate and Up (Phi-3).
  attn_qkv,
  attn_qkv_bias,
  ffn_gate_up,
  // In which order the columns of a product stand (input_order.hpp).
  attn_q_order,
  attn_k_order,
  attn_v_order,
  attn_output_order,
  ffn_gate_order,
  ffn_up_order,
  ffn_down_order,
  output_order,
};
inline constexpr std::size_t kRoles = static_cast<std::size_t>(Role::output_order) + 1;
std::string_view to_string(Role role);

// The name that GGUF files give the tensor of a role: "blk.3.ffn_up.weight", with experts "blk.3.ffn_up_exps.weight".
// Bundles and their scales exist in packed files alone: "blk.3.ffn_bundle", "blk.3.ffn_scales".
std::string tensor_name(Role role, int layer, bool experts);
// PowerInfer's files store Down by neurons, [ffn, width], under this name.
std::string down_by_neuron_name(int layer);
bool is_of_model(Role role);  // stored once, with layer -1, whichever layer uses it
bool is_ffn(Role role);       // gate, up, down, the first two as one, or their bundles and scales; a shared FFN is none: every row needs it
bool is_joined(Role role);  // rows of several matrices one behind the other, which products take by parts
bool is_predictor(Role role);
bool is_vector(Role role);  // norms, biases, factors, value heads and orders: one row, always f32 in a packed file but for orders
bool is_order(Role role);   // of columns: index32

}  // namespace vitro
