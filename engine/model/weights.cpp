#include "engine/model/weights.hpp"

#include <fmt/format.h>

#include "engine/base/check.hpp"
#include "engine/model/product_copy.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {

std::string_view to_string(Role role) {
  switch (role) {
    case Role::token_embedding:
      return "token_embedding";
    case Role::output_norm:
      return "output_norm";
    case Role::output:
      return "output";
    case Role::rope_factors:
      return "rope_factors";
    case Role::attn_norm:
      return "attn_norm";
    case Role::attn_q:
      return "attn_q";
    case Role::attn_k:
      return "attn_k";
    case Role::attn_v:
      return "attn_v";
    case Role::attn_q_bias:
      return "attn_q_bias";
    case Role::attn_k_bias:
      return "attn_k_bias";
    case Role::attn_v_bias:
      return "attn_v_bias";
    case Role::attn_output:
      return "attn_output";
    case Role::attn_q_norm:
      return "attn_q_norm";
    case Role::attn_k_norm:
      return "attn_k_norm";
    case Role::attn_sub_norm:
      return "attn_sub_norm";
    case Role::ffn_sub_norm:
      return "ffn_sub_norm";
    case Role::ffn_norm:
      return "ffn_norm";
    case Role::ffn_gate:
      return "ffn_gate";
    case Role::ffn_up:
      return "ffn_up";
    case Role::ffn_down:
      return "ffn_down";
    case Role::router:
      return "router";
    case Role::ffn_bundle:
      return "ffn_bundle";
    case Role::ffn_scales:
      return "ffn_scales";
    case Role::predictor_in:
      return "predictor_in";
    case Role::predictor_out:
      return "predictor_out";
  }
  return "?";
}

bool is_of_model(Role role) {
  return role == Role::token_embedding || role == Role::output_norm || role == Role::output || role == Role::rope_factors;
}

bool is_ffn(Role role) {
  return role == Role::ffn_gate || role == Role::ffn_up || role == Role::ffn_down || role == Role::ffn_bundle || role == Role::ffn_scales;
}

bool is_predictor(Role role) { return role == Role::predictor_in || role == Role::predictor_out; }

bool is_vector(Role role) {
  switch (role) {
    case Role::output_norm:
    case Role::rope_factors:
    case Role::attn_norm:
    case Role::attn_q_bias:
    case Role::attn_k_bias:
    case Role::attn_v_bias:
    case Role::attn_q_norm:
    case Role::attn_k_norm:
    case Role::attn_sub_norm:
    case Role::ffn_sub_norm:
    case Role::ffn_norm:
      return true;
    default:
      return false;
  }
}

std::string tensor_name(Role role, int layer, bool experts) {
  const auto of_layer = [&](std::string_view part) { return fmt::format("blk.{}.{}", layer, part); };
  switch (role) {
    case Role::token_embedding:
      return "token_embd.weight";
    case Role::output_norm:
      return "output_norm.weight";
    case Role::output:
      return "output.weight";
    case Role::rope_factors:
      return "rope_freqs.weight";
    case Role::attn_q_bias:
      return of_layer("attn_q.bias");
    case Role::attn_k_bias:
      return of_layer("attn_k.bias");
    case Role::attn_v_bias:
      return of_layer("attn_v.bias");
    case Role::router:
      return of_layer("ffn_gate_inp.weight");
    case Role::ffn_bundle:
      return of_layer("ffn_bundle");
    case Role::ffn_scales:
      return of_layer("ffn_scales");
    case Role::predictor_in:
      return of_layer("fc1.weight");
    case Role::predictor_out:
      return of_layer("fc2.weight");
    case Role::ffn_gate:
    case Role::ffn_up:
    case Role::ffn_down:
      return of_layer(fmt::format("{}{}.weight", to_string(role), experts ? "_exps" : ""));
    default:
      return of_layer(fmt::format("{}.weight", to_string(role)));
  }
}

std::string down_by_neuron_name(int layer) { return fmt::format("blk.{}.ffn_down_t.weight", layer); }

BundleLayout Weight::bundles() const {
  VITRO_CHECK(role == Role::ffn_bundle, "only bundles have their layout");
  return bundle_layout(format == Format::q4_nibbles ? Format::q4_0 : format, rows, columns, form);
}

Bytes Weight::stored_bytes() const {
  return role == Role::ffn_bundle ? bundles().bytes() * experts : row_bytes(format, columns, layout) * rows * experts;
}

Bytes Weight::payload_bytes() const { return row_bytes(format, columns, layout) * rows * experts * (role == Role::ffn_bundle ? 3 : 1); }

WeightStore::WeightStore(std::vector<Weight> weights) : weights_(std::move(weights)) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const bool fresh = index_.emplace(std::pair(weights_[i].role, int{weights_[i].layer}), i).second;
    VITRO_CHECK(fresh, "two weights with one role and layer");
  }
}

const Weight* WeightStore::find(Role role, int layer) const {
  const auto found = index_.find({role, layer});
  return found == index_.end() ? nullptr : &weights_[found->second];
}

const Weight& WeightStore::get(Role role, int layer) const {
  const Weight* weight = find(role, layer);
  VITRO_CHECK(weight != nullptr, "the model has no such weight");
  return *weight;
}

WeightStore WeightStore::without(Role role) const {
  std::vector<Weight> others = weights_;
  std::erase_if(others, [role](const Weight& weight) { return weight.role == role; });
  return WeightStore(std::move(others));
}

Bytes WeightStore::total_bytes() const {
  Bytes total = 0;
  for (const Weight& weight : weights_) total += weight.extent.length;
  return total;
}

Bytes WeightStore::ffn_bytes() const {
  Bytes total = 0;
  for (const Weight& weight : weights_) {
    if (is_ffn(weight.role)) total += weight.extent.length;
  }
  return total;
}

std::vector<Weight> weights_of(const ModelConfig& c, bool bundles) {
  if (bundles && c.sub_norms) {
    throw ConfigError(
        "engine.policy: computes neuron by neuron, but this model normalises over all neurons before the Down projection "
        "(expected dense or mmap)");
  }
  std::vector<Weight> out;
  const bool moe = c.experts > 0;
  const auto add = [&](Role role, int layer, std::uint32_t rows, std::uint32_t columns, std::uint32_t experts = 1) {
    out.push_back({.name = tensor_name(role, layer, moe),
                   .role = role,
                   .layer = static_cast<std::int16_t>(layer),
                   .rows = rows,
                   .columns = columns,
                   .experts = experts});
  };
  add(Role::token_embedding, -1, c.vocab, c.width);
  if (c.rope_factors) add(Role::rope_factors, -1, 1, c.rope.dims / 2);
  for (int layer = 0; layer < static_cast<int>(c.layers); ++layer) {
    add(Role::attn_norm, layer, 1, c.width);
    add(Role::attn_q, layer, c.q_width(), c.width);
    add(Role::attn_k, layer, c.kv_width(), c.width);
    add(Role::attn_v, layer, c.kv_width(), c.width);
    if (c.qkv_bias) {
      add(Role::attn_q_bias, layer, 1, c.q_width());
      add(Role::attn_k_bias, layer, 1, c.kv_width());
      add(Role::attn_v_bias, layer, 1, c.kv_width());
    }
    if (c.qk_norm) {
      add(Role::attn_q_norm, layer, 1, c.head_dim);
      add(Role::attn_k_norm, layer, 1, c.head_dim);
    }
    if (c.sub_norms) add(Role::attn_sub_norm, layer, 1, c.q_width());
    add(Role::attn_output, layer, c.width, c.q_width());
    add(Role::ffn_norm, layer, 1, c.width);
    if (moe) add(Role::router, layer, c.experts, c.width);
    const std::uint32_t experts = moe ? c.experts : 1;
    if (c.predictor_rank > 0) {
      add(Role::predictor_in, layer, c.predictor_rank, c.width);
      add(Role::predictor_out, layer, c.ffn, c.predictor_rank, experts);
    }
    if (bundles) {
      add(Role::ffn_bundle, layer, c.ffn, c.width, experts);
      continue;
    }
    add(Role::ffn_gate, layer, c.ffn, c.width, experts);
    add(Role::ffn_up, layer, c.ffn, c.width, experts);
    if (c.sub_norms) add(Role::ffn_sub_norm, layer, 1, c.ffn);
    add(Role::ffn_down, layer, c.width, c.ffn, experts);
  }
  add(Role::output_norm, -1, 1, c.width);
  if (!c.tied_embedding) add(Role::output, -1, c.vocab, c.width);
  return out;
}

std::size_t set_form(std::vector<Weight>& weights, std::size_t i, BundleForm form, Format ffn) {
  Weight& bundles = weights[i];
  bundles.form = resolved_form(form, ffn);
  bundles.format = bundle_layout(ffn, bundles.rows, bundles.columns, bundles.form).format;
  if (bundles.format != Format::q4_nibbles) return 0;
  Weight scales;
  scales.role = Role::ffn_scales;
  scales.layer = bundles.layer;
  scales.name = tensor_name(scales.role, scales.layer, false);
  scales.rows = 3 * bundles.rows;
  scales.columns = bundles.columns / static_cast<std::uint32_t>(kBlock);
  scales.experts = bundles.experts;
  scales.format = Format::f16;
  weights.insert(weights.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(scales));
  return 1;
}

namespace {

WeightStore lay_out(std::vector<Weight> weights, Format matrices, FileId file, std::optional<BundleForm> bundles, Layout layout,
                    const std::map<Role, Format>& others) {
  Bytes position = 0;
  const auto format_of = [&](Role role) {
    const auto other = others.find(role);
    return other == others.end() ? matrices : other->second;
  };
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].role == Role::ffn_bundle) set_form(weights, i, *bundles, matrices);
    Weight& weight = weights[i];
    const bool plain = is_vector(weight.role) || weight.role == Role::router;
    if (weight.role != Role::ffn_bundle && weight.role != Role::ffn_scales) weight.format = plain ? Format::f32 : format_of(weight.role);
    if (weight.columns % block_elements(weight.format) != 0) {
      throw ConfigError(fmt::format("{}: rows of {} elements are not whole {} blocks of {} (choose another format or width)", weight.name,
                                    weight.columns, to_string(weight.format), block_elements(weight.format)));
    }
    const bool by_row = weight.role == Role::token_embedding || weight.role == Role::ffn_bundle;
    if (!by_row && can_tile(weight.format, weight.rows)) weight.layout = Layout::tiled;
    if (!by_row && can_lay(layout, weight.format, weight.rows)) weight.layout = layout;
    weight.extent = {file, position, weight.stored_bytes()};
    position = round_up(position + weight.extent.length, kPageSize);
  }
  return WeightStore(std::move(weights));
}

}  // namespace

WeightStore phantom_weights(const ModelConfig& config, Format matrices, FileId file, std::optional<BundleForm> bundles, Layout layout,
                            const std::map<Role, Format>& others) {
  return lay_out(weights_of(config, bundles.has_value()), matrices, file, bundles, layout, others);
}

WeightStore phantom_products(const ModelConfig& config, Format matrices, FileId file) {
  return lay_out(products_of(config), matrices, file, {}, Layout::tiled, {});
}

}  // namespace vitro
