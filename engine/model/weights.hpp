// WeightStore: where each weight of a model lies in flash, and in which form. It owns no bytes: the cache policies do.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/machine/storage.hpp"
#include "engine/model/bundle_layout.hpp"
#include "engine/model/model_config.hpp"

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
  attn_k_norm,  // of one head's size, the same for all heads
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
};
inline constexpr std::size_t kRoles = static_cast<std::size_t>(Role::predictor_out) + 1;
std::string_view to_string(Role role);

// The name that GGUF files give the tensor of a role: "blk.3.ffn_up.weight", with experts "blk.3.ffn_up_exps.weight".
// Bundles and their scales exist in packed files alone: "blk.3.ffn_bundle", "blk.3.ffn_scales".
std::string tensor_name(Role role, int layer, bool experts);
// PowerInfer's files store Down by neurons, [ffn, width], under this name.
std::string down_by_neuron_name(int layer);
bool is_of_model(Role role);  // stored once, with layer -1, whichever layer uses it
bool is_ffn(Role role);       // gate, up, down, or their bundles and scales
bool is_predictor(Role role);
bool is_vector(Role role);  // norms, biases and factors: one row, always f32 in a packed file

struct Weight {
  std::string name;  // as in the GGUF file: "blk.3.ffn_up.weight"
  Role role{};
  std::int16_t layer = -1;
  // N, K; a vector has rows = 1; bundles: neurons, and the width of each of three rows; their scales: 3 * neurons, width / 32
  std::uint32_t rows = 0, columns = 0;
  std::uint32_t experts = 1;  // matrices in this tensor
  Format format = Format::f32;
  Layout layout = Layout::rows;
  BundleForm form = BundleForm::one_read;  // bundles only
  Extent extent;                           // page-aligned offset in the packed file; length is that of all experts

  Bytes matrix_bytes() const { return extent.length / experts; }
  // How one expert's bundles lie in its matrix_bytes(). Requires: role is ffn_bundle.
  BundleLayout bundles() const;
  // What a file spends on the weight, padding within bundles included, and what of it is weights.
  Bytes stored_bytes() const;
  Bytes payload_bytes() const;
};

class WeightStore {
 public:
  WeightStore() = default;
  explicit WeightStore(std::vector<Weight> weights);

  const Weight& get(Role role, int layer = -1) const;  // Requires: it exists
  const Weight* find(Role role, int layer = -1) const;
  const std::vector<Weight>& all() const { return weights_; }  // in file order
  WeightStore without(Role role) const;
  Bytes total_bytes() const;
  Bytes ffn_bytes() const;  // gate, up and down of all layers and experts; of bundles with their padding and scales

 private:
  std::vector<Weight> weights_;
  std::map<std::pair<Role, int>, std::size_t> index_;
};

// Every weight that the configuration asks for, in the order of a pass over the model, without format and extent. With
// `bundles` one ffn_bundle stands where gate, up and down would, still without its form; ConfigError when the model can not be
// computed neuron by neuron.
std::vector<Weight> weights_of(const ModelConfig& config, bool bundles = false);

// Gives bundles their form, once the format of the FFN is known: `weights[i]`'s format becomes that of its rows, and when it
// is q4_nibbles the scales are inserted behind it. Returns how many weights it inserted. Throws ConfigError when the form is
// not one for this format.
std::size_t set_form(std::vector<Weight>& weights, std::size_t i, BundleForm form, Format ffn);

// Weights that never existed, for shape-only models: vectors and the router are f32, all matrices have the format
// `matrices` (also the embeddings), each tensor starts on a page. In `layout` where the format and shape have it, else in
// Layout::tiled or rows, as a packed file would have them. `others`: matrices that have a format of their own. Throws ConfigError when
// a row is not a whole number of blocks.
WeightStore phantom_weights(const ModelConfig& config, Format matrices, FileId file, std::optional<BundleForm> bundles = {},
                            Layout layout = Layout::tiled, const std::map<Role, Format>& others = {});

// The same of the layers' products alone: what an engine keeps twice that has the weights once for each of two processors.
WeightStore phantom_products(const ModelConfig& config, Format matrices, FileId file);

}  // namespace vitro
