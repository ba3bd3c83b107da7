#include "engine/model/model_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/base/config.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/model_tensors.hpp"
#include "engine/model/role.hpp"

namespace vitro {
namespace {

// Far above any model, low enough that products of two stay inside 64 bits and of a head count and a size inside 32.
constexpr std::uint64_t kMaxWidth = 1u << 20, kMaxLayers = 4096, kMaxHeads = 4096, kMaxHeadDim = 4096, kMaxVocab = 1u << 24,
                        kMaxContext = 1u << 30, kMaxExperts = 4096;

constexpr std::array<std::pair<std::string_view, Activation>, 4> kActivations{
    {{"silu", Activation::silu}, {"relu", Activation::relu}, {"relu_squared", Activation::relu_squared}, {"gelu", Activation::gelu}}};

const ModelFamily& family_of(const Gguf& gguf) {
  const std::string& architecture = gguf.text("general.architecture");
  std::vector<std::string_view> names;
  for (const ModelFamily& family : model_families()) {
    if (family.architecture == architecture) return family;
    names.push_back(family.architecture);
  }
  gguf.fail("general.architecture", fmt::format("\"{}\" is not supported (expected one of: {})", architecture, fmt::join(names, ", ")));
}

constexpr std::string_view kPredictorThresholds = "vitro.predictor.thresholds", kFiringThresholds = "vitro.feed_forward.thresholds";

std::vector<float> by_layer(const Gguf& gguf, std::string_view key, std::uint32_t layers) {
  std::vector<float> values = gguf.floats(key);
  if (values.size() != layers) gguf.fail(key, fmt::format("{} thresholds for {} layers", values.size(), layers));
  for (const float value : values) {
    if (!std::isfinite(value)) gguf.fail(key, "a threshold is not finite");
  }
  return values;
}

// Rules that hold for every source of a configuration; `fail(key, problem)` reports in that source's words.
template <class Fail>
void check_config(const ModelConfig& c, const Fail& fail) {
  if (c.heads % c.kv_heads != 0) fail("kv_heads", fmt::format("{} query heads are not a multiple of {} KV heads", c.heads, c.kv_heads));
  if (c.rope.dims > c.head_dim || c.rope.dims % 2 != 0) {
    fail("rope_dims", fmt::format("{} rotary dimensions (expected an even number up to the head size, {})", c.rope.dims, c.head_dim));
  }
  if (c.experts > 0 && c.sub_norms) fail("experts", "can not be combined with a norm before the Down projection");
  if (c.experts > 0 && (c.experts_used == 0 || c.experts_used > c.experts)) {
    fail("experts_used", fmt::format("{} of {} experts used per token", c.experts_used, c.experts));
  }
  if (c.experts > 0 && c.joined_gate_up) fail("joined_gate_up", "is one matrix of a layer, not of its experts (expected false)");
  if (c.experts == 0 && c.dense_layers > 0) fail("dense_layers", "needs experts in the layers behind them (expected 0)");
  if (c.experts == 0 && c.shared_ffn > 0) fail("shared_ffn", "needs experts beside it (expected 0)");
  if (c.dense_layers > c.layers) {
    fail("dense_layers", fmt::format("{} layers before the experts (expected up to {}, all layers)", c.dense_layers, c.layers));
  }
  if (c.rope.attention_factor != 1 && c.rope.dims != c.head_dim) {
    fail("attention_factor", fmt::format("{} of {} dimensions turn (expected all of them, or no factor)", c.rope.dims, c.head_dim));
  }
}

class MixtureReader {
 public:
  MixtureReader(const Gguf& gguf, const ModelFamily& family, std::string prefix)
      : gguf_(gguf), family_(family), prefix_(std::move(prefix)) {}

  void read(ModelConfig& c) const {
    const std::uint32_t plain = c.ffn;
    c.experts = size("expert_count", family_.mixture ? 1 : 0, kMaxExperts, family_.mixture ? std::nullopt : std::optional(0u));
    if (c.experts == 0) return;
    c.experts_used = size("expert_used_count", 1, kMaxExperts, {});
    if (c.experts_used > c.experts) {
      gguf_.fail(prefix_ + "expert_used_count",
                 fmt::format("is {} (expected up to {}expert_count, {})", c.experts_used, prefix_, c.experts));
    }
    // Llama-architecture files of mixtures hold one expert's width under the plain key unless they say otherwise; the first files of
    // qwen2moe that of all chosen experts.
    const bool of_chosen = family_.shared == SharedFfn::gated;
    c.ffn = size("expert_feed_forward_length", 1, kMaxWidth, of_chosen ? std::max(plain / c.experts_used, 1u) : plain);
    c.router = family_.router;
    c.renormalise_experts = c.router == ops::Scores::softmax && gguf_.boolean(prefix_ + "expert_weights_norm", family_.renormalise_experts);
    c.expert_scale = static_cast<float>(gguf_.number(prefix_ + "expert_weights_scale", 1e-3, 1e3, 1));
    check_gating();
    if (family_.shared == SharedFfn::gated) {
      c.shared_ffn = size("expert_shared_feed_forward_length", 1, kMaxWidth, plain);
      c.shared_gate = true;
    }
    if (family_.shared == SharedFfn::several) {
      c.shared_ffn = size("expert_shared_count", 0, std::min<std::uint64_t>(kMaxExperts, kMaxWidth / c.ffn), {}) * c.ffn;
    }
    if (!family_.leading_dense) return;
    c.dense_layers = size("leading_dense_block_count", 0, c.layers, {});
    c.dense_ffn = plain;
  }

 private:
  std::uint32_t size(std::string_view key, std::uint64_t min, std::uint64_t max, std::optional<std::uint32_t> otherwise) const {
    const std::string name = prefix_ + std::string(key);
    return static_cast<std::uint32_t>(otherwise ? gguf_.integer(name, min, max, *otherwise) : gguf_.integer(name, min, max));
  }
  // llama.cpp, gguf-py/gguf/constants.py, ExpertGatingFuncType.
  void check_gating() const {
    constexpr std::uint64_t kSoftmax = 1;
    const std::string key = prefix_ + "expert_gating_func";
    const std::uint64_t found = gguf_.integer(key, 0, std::numeric_limits<std::uint32_t>::max(), kSoftmax);
    if (found != kSoftmax) gguf_.fail(key, fmt::format("is {} (expected {}, a softmax)", found, kSoftmax));
  }

  const Gguf& gguf_;
  const ModelFamily& family_;
  const std::string prefix_;
};

void read_rope(const Gguf& gguf, const std::string& prefix, ModelConfig& c) {
  c.rope.base = static_cast<float>(gguf.number(prefix + "rope.freq_base", 1, 1e12, 10000));
  c.rope.dims = static_cast<std::uint32_t>(gguf.integer(prefix + "rope.dimension_count", 2, kMaxHeadDim, c.head_dim));
  c.rope_factors = gguf.find_tensor("rope_freqs.weight") != nullptr;
  for (const Role role : {Role::rope_factors_short, Role::rope_factors_long}) {
    c.rope_factors_by_length = c.rope_factors_by_length || gguf.find_tensor(tensor_name(role, -1, false)) != nullptr;
  }
  if (c.rope_factors_by_length) {
    c.rope.original_context = static_cast<std::uint32_t>(gguf.integer(prefix + "rope.scaling.original_context_length", 1, kMaxContext));
  }
  c.rope.attention_factor = static_cast<float>(gguf.number(prefix + "rope.scaling.attn_factor", 1e-3, 1e3, 1));
  const std::string scaling = gguf.text(prefix + "rope.scaling.type", "none");
  double factor = 1;
  if (scaling == "linear") {
    factor = gguf.number(prefix + "rope.scaling.factor", 1e-3, 1e6);
  } else if (scaling == "none") {
    factor = gguf.number(prefix + "rope.scale_linear", 1e-3, 1e6, 1);
  } else if (scaling != "longrope" || !c.rope_factors_by_length) {
    gguf.fail(prefix + "rope.scaling.type",
              fmt::format("\"{}\" is not supported (expected none or linear, or longrope with rope_factors_long.weight)", scaling));
  }
  c.rope.position_scale = static_cast<float>(1 / factor);
}

std::uint32_t rows_of(const Gguf& gguf, const TensorInfo& tensor, std::uint64_t most) {
  if (tensor.rows() > most) gguf.fail(tensor.name, fmt::format("{} rows (expected up to {})", tensor.rows(), most));
  return static_cast<std::uint32_t>(tensor.rows());
}

}  // namespace

std::string_view to_string(Activation activation) {
  for (const auto& [name, known] : kActivations) {
    if (known == activation) return name;
  }
  return "?";
}

ModelConfig config_from_gguf(const Gguf& gguf) {
  const ModelFamily& family = family_of(gguf);
  const std::string prefix = std::string(family.architecture) + ".";
  const auto size = [&](std::string_view key, std::uint64_t min, std::uint64_t max) {
    return static_cast<std::uint32_t>(gguf.integer(prefix + std::string(key), min, max));
  };
  const auto size_or = [&](std::string_view key, std::uint64_t min, std::uint64_t max, std::uint64_t otherwise) {
    return static_cast<std::uint32_t>(gguf.integer(prefix + std::string(key), min, max, otherwise));
  };

  ModelConfig c;
  c.name = gguf.text("general.name", "");
  c.layers = size("block_count", 1, kMaxLayers);
  c.width = size("embedding_length", 1, kMaxWidth);
  c.heads = size("attention.head_count", 1, kMaxHeads);
  c.kv_heads = size_or("attention.head_count_kv", 1, kMaxHeads, c.heads);
  if (!gguf.has(prefix + "attention.key_length") && c.width % c.heads != 0) {
    gguf.fail(prefix + "attention.head_count", fmt::format("width {} is not a multiple of {} heads", c.width, c.heads));
  }
  c.head_dim = size_or("attention.key_length", 1, kMaxHeadDim, c.width / c.heads);
  if (size_or("attention.value_length", 1, kMaxHeadDim, c.head_dim) != c.head_dim) {
    gguf.fail(prefix + "attention.value_length", fmt::format("differs from the key length, {}", c.head_dim));
  }
  c.ffn = size("feed_forward_length", 1, kMaxWidth);
  c.context = size("context_length", 1, kMaxContext);
  MixtureReader(gguf, family, prefix).read(c);
  c.window = size_or("attention.sliding_window", 0, kMaxContext, 0);
  c.norm_eps = static_cast<float>(gguf.number(prefix + "attention.layer_norm_rms_epsilon", 0, 1));
  // PowerInfer's own format says nothing: it is for models with relu alone.
  const std::string activation = gguf.text("vitro.feed_forward.activation", gguf.powerinfer() ? "relu" : family.activation);
  const auto known = std::find_if(kActivations.begin(), kActivations.end(), [&](const auto& entry) { return entry.first == activation; });
  if (known == kActivations.end()) {
    gguf.fail("vitro.feed_forward.activation", fmt::format("\"{}\" (expected silu, relu, relu_squared or gelu)", activation));
  }
  c.activation = known->second;
  c.qk_norm = family.qk_norm;
  c.sub_norms = family.sub_norms, c.norm = family.norm;
  if (const TensorInfo* predictor = gguf.find_tensor("blk.0.fc1.weight")) {
    c.predictor_rank = rows_of(gguf, *predictor, kMaxWidth);
    if (gguf.has(kPredictorThresholds)) {
      c.predictor_thresholds = by_layer(gguf, kPredictorThresholds, c.layers);
    } else {
      c.predictor_thresholds = {static_cast<float>(gguf.number("powerinfer.sparse_threshold", -1e6, 1e6))};
    }
    c.predictor_relu = gguf.boolean("vitro.predictor.relu", true);
  }
  if (gguf.has(kFiringThresholds)) c.firing_thresholds = by_layer(gguf, kFiringThresholds, c.layers);
  c.rope.style = family.rope;
  read_rope(gguf, prefix, c);

  const TensorInfo* embedding = gguf.find_tensor("token_embd.weight");
  if (embedding == nullptr) gguf.fail("token_embd.weight", "the tensor is missing");
  c.vocab = size_or("vocab_size", 1, kMaxVocab, rows_of(gguf, *embedding, kMaxVocab));
  c.tied_embedding = gguf.find_tensor("output.weight") == nullptr;
  read_joined(gguf, family, c);
  c.qkv_bias = gguf.find_tensor(c.joined_qkv ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias") != nullptr;
  c.attn_output_bias = gguf.find_tensor("blk.0.attn_output.bias") != nullptr;
  c.output_bias = gguf.find_tensor("output.bias") != nullptr;
  read_value_head(gguf, prefix, c);

  c.family = family.name != "llama" ? family.name : c.experts > 0 ? "mixtral" : c.window > 0 ? "mistral" : "llama";
  check_config(c, [&](std::string_view key, std::string_view problem) { gguf.fail(prefix + std::string(key), problem); });
  const std::size_t tensors = gguf.tensors().size();  // checked first, since what is expected is listed for each layer
  if (c.layers > tensors) gguf.fail(prefix + "block_count", fmt::format("{} layers in a file of {} tensors", c.layers, tensors));
  c.orders = input_orders(gguf, c);
  check_tensors(gguf, c);
  return c;
}

namespace {

// Mistral and Mixtral are names for llama's.
const ModelFamily& family_from(Reader& r, ModelConfig& c) {
  std::vector<std::string> names{"llama", "mistral", "mixtral"};
  for (const ModelFamily& family : model_families()) {
    if (std::ranges::find(names, family.name) == names.end()) names.emplace_back(family.name);
  }
  c.family = r.choice("family", names, "llama");
  const auto found = std::ranges::find(model_families(), std::string_view(c.family), &ModelFamily::name);
  return found != model_families().end() ? *found : model_families().front();
}

}  // namespace

ModelConfig config_from_node(Reader& r) {
  const auto size = [&](std::string_view key, std::uint64_t max) {
    return static_cast<std::uint32_t>(r.integer(key, 1, static_cast<std::int64_t>(max)));
  };
  const auto size_or = [&](std::string_view key, std::uint64_t min, std::uint64_t max, std::uint64_t otherwise) {
    return static_cast<std::uint32_t>(
        r.integer(key, static_cast<std::int64_t>(min), static_cast<std::int64_t>(max), static_cast<std::int64_t>(otherwise)));
  };
  ModelConfig c;
  const ModelFamily& family = family_from(r, c);
  c.name = r.text("name", c.family);
  c.layers = size("layers", kMaxLayers);
  c.width = size("width", kMaxWidth);
  c.heads = size("heads", kMaxHeads);
  c.kv_heads = size_or("kv_heads", 1, kMaxHeads, c.heads);
  if (!r.has("head_dim") && c.width % c.heads != 0) {
    r.fail("heads", fmt::format("width {} is not a multiple of {} heads", c.width, c.heads));
  }
  c.head_dim = size_or("head_dim", 1, kMaxHeadDim, std::max(1u, c.width / c.heads));
  c.ffn = size("ffn", kMaxWidth);
  c.vocab = size("vocab", kMaxVocab);
  c.context = size("context", kMaxContext);
  c.experts = size_or("experts", 0, kMaxExperts, 0);
  if (c.experts > 0) c.experts_used = size("experts_used", kMaxExperts);
  c.router = family.router;
  c.renormalise_experts = r.boolean("renormalise_experts", family.renormalise_experts) && c.router == ops::Scores::softmax;
  c.expert_scale = static_cast<float>(r.number("expert_scale", 1e-3, 1e3, 1));
  c.shared_ffn = size_or("shared_ffn", 0, kMaxWidth, 0);
  c.shared_gate = r.boolean("shared_gate", family.shared == SharedFfn::gated) && c.shared_ffn > 0;
  c.dense_layers = size_or("dense_layers", 0, kMaxLayers, 0);
  if (c.dense_layers > 0) c.dense_ffn = size("dense_ffn", kMaxWidth);
  c.norm = family.norm;
  c.tied_embedding = r.boolean("tied_embedding", false);
  c.qkv_bias = r.boolean("qkv_bias", c.family == "qwen2");
  c.joined_qkv = r.boolean("joined_qkv", family.joined), c.joined_gate_up = r.boolean("joined_gate_up", family.joined && c.experts == 0);
  c.attn_output_bias = r.boolean("attn_output_bias", false);
  c.output_bias = r.boolean("output_bias", false);
  if (r.boolean("qk_norm", family.qk_norm != QkNorm::none)) c.qk_norm = family.qk_norm == QkNorm::whole ? QkNorm::whole : QkNorm::heads;
  c.sub_norms = r.boolean("sub_norms", family.sub_norms);
  c.rope_factors = r.boolean("rope_factors", false);
  c.window = size_or("window", 0, kMaxContext, 0);
  c.norm_eps = static_cast<float>(r.number("norm_eps", 0, 1, 1e-5));
  const std::string activation =
      r.choice("activation", {"silu", "relu", "relu_squared", "gelu"}, c.family == "bitnet" ? "relu_squared" : "silu");
  for (const auto& [name, value] : kActivations) {
    if (name == activation) c.activation = value;
  }
  c.predictor_rank = size_or("predictor_rank", 0, kMaxWidth, 0);
  c.rope.style = family.rope;
  c.rope.base = static_cast<float>(r.number("rope_base", 1, 1e12, 10000));
  c.rope.dims = size_or("rope_dims", 2, kMaxHeadDim, c.head_dim);
  c.rope.position_scale = static_cast<float>(1 / r.number("rope_scale", 1e-3, 1e6, 1));
  check_config(c, [&](std::string_view key, std::string_view problem) { r.fail(key, problem); });
  r.finish();
  return c;
}

}  // namespace vitro
