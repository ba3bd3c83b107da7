#include "engine/model/weights.hpp"

#include <fmt/format.h>

#include "engine/base/check.hpp"
#include "engine/model/product_copy.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {

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

const Weight* WeightStore::first(Role role) const {
  const auto found = index_.lower_bound({role, -1});
  return found == index_.end() || found->first.first != role ? nullptr : &weights_[found->second];
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

namespace {

// The list that weights_of() makes, layer by layer.
class WeightList {
 public:
  WeightList(const ModelConfig& config, bool bundles) : c_(config), bundles_(bundles) {}

  std::vector<Weight> make() {
    add(Role::token_embedding, c_.vocab, c_.width);
    if (c_.rope_factors) add(Role::rope_factors, 1, c_.rope.dims / 2);
    if (c_.rope_factors_by_length) {
      add(Role::rope_factors_short, 1, c_.rope.dims / 2);
      add(Role::rope_factors_long, 1, c_.rope.dims / 2);
    }
    for (layer_ = 0; layer_ < static_cast<int>(c_.layers); ++layer_) {
      attention();
      ffn();
    }
    layer_ = -1;
    norm(Role::output_norm, Role::output_norm_bias);
    if (!c_.tied_embedding) add(Role::output, c_.vocab, c_.width);
    if (c_.output_bias) add(Role::output_bias, 1, c_.vocab);
    if (c_.value_head) add(Role::value_head, 1, c_.width);
    if (c_.value_bias) add(Role::value_bias, 1, 1);
    return std::move(out_);
  }

 private:
  void add(Role role, std::uint32_t rows, std::uint32_t columns, std::uint32_t experts = 1) {
    out_.push_back({.name = tensor_name(role, layer_, c_.has_experts(layer_)),
                    .role = role,
                    .layer = static_cast<std::int16_t>(layer_),
                    .rows = rows,
                    .columns = columns,
                    .experts = experts});
    if (has_order(c_.orders, layer_, role)) add(*order_of(role), 1, columns);
  }
  void norm(Role weight, Role bias) {
    add(weight, 1, c_.width);
    if (c_.norm == Norm::layer) add(bias, 1, c_.width);
  }

  void attention() {
    norm(Role::attn_norm, Role::attn_norm_bias);
    if (c_.joined_qkv) {
      add(Role::attn_qkv, c_.qkv_width(), c_.width);
      if (c_.qkv_bias) add(Role::attn_qkv_bias, 1, c_.qkv_width());
    } else {
      qkv();
    }
    if (c_.qk_norm != QkNorm::none) {
      add(Role::attn_q_norm, 1, c_.qk_norm == QkNorm::heads ? c_.head_dim : c_.q_width());
      add(Role::attn_k_norm, 1, c_.qk_norm == QkNorm::heads ? c_.head_dim : c_.kv_width());
    }
    if (c_.sub_norms) add(Role::attn_sub_norm, 1, c_.q_width());
    add(Role::attn_output, c_.width, c_.q_width());
    if (c_.attn_output_bias) add(Role::attn_output_bias, 1, c_.width);
  }

  void qkv() {
    add(Role::attn_q, c_.q_width(), c_.width);
    add(Role::attn_k, c_.kv_width(), c_.width);
    add(Role::attn_v, c_.kv_width(), c_.width);
    if (!c_.qkv_bias) return;
    add(Role::attn_q_bias, 1, c_.q_width());
    add(Role::attn_k_bias, 1, c_.kv_width());
    add(Role::attn_v_bias, 1, c_.kv_width());
  }

  void ffn() {
    norm(Role::ffn_norm, Role::ffn_norm_bias);
    const bool moe = c_.has_experts(layer_), by_neuron = bundles_ && c_.has_neurons(layer_);
    const std::uint32_t width = c_.ffn_of(layer_), experts = moe ? c_.experts : 1;
    if (moe) add(Role::router, c_.experts, c_.width);
    if (moe && c_.shared_ffn > 0) shared();
    if (c_.predictor_rank > 0 && c_.has_neurons(layer_)) {
      add(Role::predictor_in, c_.predictor_rank, c_.width);
      add(Role::predictor_out, width, c_.predictor_rank, experts);
    }
    if (by_neuron) {
      if (c_.sub_norms) add(Role::ffn_sub_norm, 1, width);
      return add(Role::ffn_bundle, width, c_.width, experts);
    }
    if (c_.joined_gate_up) {
      add(Role::ffn_gate_up, 2 * width, c_.width);
    } else {
      add(Role::ffn_gate, width, c_.width, experts);
      add(Role::ffn_up, width, c_.width, experts);
    }
    if (c_.sub_norms) add(Role::ffn_sub_norm, 1, width);
    add(Role::ffn_down, c_.width, width, experts);
  }

  void shared() {
    if (c_.shared_gate) add(Role::shared_router, 1, c_.width);
    add(Role::shared_gate, c_.shared_ffn, c_.width);
    add(Role::shared_up, c_.shared_ffn, c_.width);
    add(Role::shared_down, c_.width, c_.shared_ffn);
  }

  const ModelConfig& c_;
  const bool bundles_;
  std::vector<Weight> out_;
  int layer_ = -1;
};

}  // namespace

std::vector<Weight> weights_of(const ModelConfig& c, bool bundles) {
  return WeightList(c, bundles).make();
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

// What bundles of such matrices have, whose Down is turned: as bundle_format() of a file's.
Format bundled(Format matrices) { return stored_layout(matrices) == Layout::rows ? matrices : Format::q8_0; }

WeightStore lay_out(std::vector<Weight> weights, Format matrices, FileId file, std::optional<BundleForm> bundles, Layout layout,
                    const std::map<Role, Format>& others) {
  Bytes position = 0;
  const auto format_of = [&](Role role) {
    const auto other = others.find(role);
    return other == others.end() ? matrices : other->second;
  };
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].role == Role::ffn_bundle) set_form(weights, i, *bundles, bundled(matrices));
    Weight& weight = weights[i];
    const bool plain = is_vector(weight.role) || weight.role == Role::router;
    if (weight.role != Role::ffn_bundle && weight.role != Role::ffn_scales) weight.format = plain ? Format::f32 : format_of(weight.role);
    if (is_order(weight.role)) weight.format = Format::index32;
    const bool by_row = weight.role == Role::token_embedding || weight.role == Role::ffn_bundle;
    // As quantize() does.
    const bool strips = !by_row && !is_predictor(weight.role) && can_store(weight.format, weight.rows, weight.columns);
    if (stored_layout(weight.format) != Layout::rows && !strips) weight.format = Format::q4_0;
    if (weight.columns % block_elements(weight.format) != 0) {
      throw ConfigError(fmt::format("{}: rows of {} elements are not whole {} blocks of {} (choose another format or width)", weight.name,
                                    weight.columns, to_string(weight.format), block_elements(weight.format)));
    }
    weight.layout = stored_layout(weight.format);
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
