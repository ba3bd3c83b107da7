// WeightStore: where each weight of a model lies in flash, and in which form. It owns no bytes: the cache policies do.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/machine/storage.hpp"
#include "engine/model/bundle_layout.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/role.hpp"

namespace vitro {

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
  const Weight* first(Role role) const;  // of the lowest layer that has one; null: there is none
  const std::vector<Weight>& all() const { return weights_; }  // in file order
  WeightStore without(Role role) const;
  Bytes total_bytes() const;
  Bytes ffn_bytes() const;  // gate, up and down of all layers and experts; of bundles with their padding and scales

 private:
  std::vector<Weight> weights_;
  std::map<std::pair<Role, int>, std::size_t> index_;
};

// Every weight that the configuration asks for, in the order of a pass over the model, without format and extent. With
// `bundles` one ffn_bundle stands where gate, up and down would, still without its form, but in dense layers before those with experts.
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
