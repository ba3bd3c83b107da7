#include "engine/model/model_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "engine/base/config.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/weights.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

// Far above any model, low enough that products of two stay inside 64 bits and of a head count and a size inside 32.
constexpr std::uint64_t kMaxWidth = 1u << 20, kMaxLayers = 4096, kMaxHeads = 4096, kMaxHeadDim = 4096, kMaxVocab = 1u << 24,
                        kMaxContext = 1u << 30, kMaxExperts = 4096;

constexpr std::array<std::pair<std::string_view, Activation>, 4> kActivations{
    {{"silu", Activation::silu}, {"relu", Activation::relu}, {"relu_squared", Activation::relu_squared}, {"gelu", Activation::gelu}}};

struct Family {
  std::string_view architecture;  // as files name it
  std::string_view name;
  RopeStyle style;  // llama files hold q and k permuted so that the rotation is interleaved
  bool qk_norm = false, sub_norms = false;
  std::string_view activation = "silu";
};
// The first BitNets had silu; those that llama.cpp's forks call 25 and b1.58 (BitNet b1.58 2B4T) square a relu.
constexpr std::array<Family, 6> kFamilies{{{"llama", "llama", RopeStyle::interleaved},
                                           {"qwen2", "qwen2", RopeStyle::half_split},
                                           {"qwen3", "qwen3", RopeStyle::half_split, true},
                                           {"bitnet", "bitnet", RopeStyle::half_split, false, true},
                                           {"bitnet-25", "bitnet", RopeStyle::half_split, false, true, "relu_squared"},
                                           {"bitnet-b1.58", "bitnet", RopeStyle::half_split, false, true, "relu_squared"}}};

const Family& family_of(const Gguf& gguf) {
  const std::string& architecture = gguf.text("general.architecture");
  for (const Family& family : kFamilies) {
    if (family.architecture == architecture) return family;
  }
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.architecture);
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
}

void read_rope(const Gguf& gguf, const std::string& prefix, ModelConfig& c) {
  c.rope.base = static_cast<float>(gguf.number(prefix + "rope.freq_base", 1, 1e12, 10000));
  c.rope.dims = static_cast<std::uint32_t>(gguf.integer(prefix + "rope.dimension_count", 2, kMaxHeadDim, c.head_dim));
  c.rope_factors = gguf.find_tensor("rope_freqs.weight") != nullptr;
  const std::string scaling = gguf.text(prefix + "rope.scaling.type", "none");
  double factor = 1;
  if (scaling == "linear") {
    factor = gguf.number(prefix + "rope.scaling.factor", 1e-3, 1e6);
  } else if (scaling == "none") {
    factor = gguf.number(prefix + "rope.scale_linear", 1e-3, 1e6, 1);
  } else {
    gguf.fail(prefix + "rope.scaling.type", fmt::format("\"{}\" is not supported (expected none or linear)", scaling));
  }
  c.rope.position_scale = static_cast<float>(1 / factor);
}

void check_tensors(const Gguf& gguf, const ModelConfig& config) {
  std::set<std::string, std::less<>> expected;
  for (const Weight& weight : weights_of(config)) {
    const TensorInfo* tensor = gguf.find_tensor(weight.name);
    const TensorInfo* by_neuron = weight.role == Role::ffn_down ? gguf.find_tensor(down_by_neuron_name(weight.layer)) : nullptr;
    const bool transposed = tensor == nullptr && by_neuron != nullptr;
    if (transposed) tensor = by_neuron;
    expected.insert(transposed ? by_neuron->name : weight.name);
    if (tensor == nullptr) gguf.fail(weight.name, "the tensor is missing");
    std::vector<std::uint64_t> dims{transposed ? weight.rows : weight.columns};
    if (!is_vector(weight.role)) dims.push_back(transposed ? weight.columns : weight.rows);
    if (weight.experts > 1 || tensor->dims.size() == 3) dims.push_back(weight.experts);
    if (tensor->dims != dims) {
      gguf.fail(weight.name,
                fmt::format("the tensor has shape [{}] (expected [{}])", fmt::join(tensor->dims, ", "), fmt::join(dims, ", ")));
    }
    if (is_vector(weight.role) && block_elements(tensor->format) != 1) {
      gguf.fail(weight.name, fmt::format("a vector in format {} (expected f32, f16 or bf16)", to_string(tensor->format)));
    }
  }
  for (const TensorInfo& tensor : gguf.tensors()) {
    if (!expected.contains(tensor.name)) gguf.fail(tensor.name, "a model of this family has no such tensor");
  }
}

}  // namespace

std::string_view to_string(Activation activation) {
  for (const auto& [name, known] : kActivations) {
    if (known == activation) return name;
  }
  return "?";
}

ModelConfig config_from_gguf(const Gguf& gguf) {
  const Family& family = family_of(gguf);
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
  c.experts = size_or("expert_count", 0, kMaxExperts, 0);
  if (c.experts > 0) {
    c.experts_used = size("expert_used_count", 1, kMaxExperts);
    // Llama-architecture files of mixtures hold one expert's width under the plain key unless they say otherwise.
    c.ffn = size_or("expert_feed_forward_length", 1, kMaxWidth, c.ffn);
    c.renormalise_experts = gguf.boolean(prefix + "expert_weights_norm", true);
  }
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
  c.sub_norms = family.sub_norms;
  if (const TensorInfo* predictor = gguf.find_tensor("blk.0.fc1.weight")) {
    if (predictor->rows() > kMaxWidth) {
      gguf.fail("blk.0.fc1.weight", fmt::format("{} rows (expected up to {})", predictor->rows(), kMaxWidth));
    }
    c.predictor_rank = static_cast<std::uint32_t>(predictor->rows());
    if (gguf.has(kPredictorThresholds)) {
      c.predictor_thresholds = by_layer(gguf, kPredictorThresholds, c.layers);
    } else {
      c.predictor_thresholds = {static_cast<float>(gguf.number("powerinfer.sparse_threshold", -1e6, 1e6))};
    }
    c.predictor_relu = gguf.boolean("vitro.predictor.relu", true);
  }
  if (gguf.has(kFiringThresholds)) c.firing_thresholds = by_layer(gguf, kFiringThresholds, c.layers);
  c.rope.style = family.style;
  read_rope(gguf, prefix, c);

  const TensorInfo* embedding = gguf.find_tensor("token_embd.weight");
  if (embedding == nullptr) gguf.fail("token_embd.weight", "the tensor is missing");
  if (embedding->rows() > kMaxVocab) {
    gguf.fail("token_embd.weight", fmt::format("{} rows (expected up to {})", embedding->rows(), kMaxVocab));
  }
  c.vocab = size_or("vocab_size", 1, kMaxVocab, embedding->rows());
  c.tied_embedding = gguf.find_tensor("output.weight") == nullptr;
  c.qkv_bias = gguf.find_tensor("blk.0.attn_q.bias") != nullptr;

  c.family = family.name != "llama" ? family.name : c.experts > 0 ? "mixtral" : c.window > 0 ? "mistral" : "llama";
  check_config(c, [&](std::string_view key, std::string_view problem) { gguf.fail(prefix + std::string(key), problem); });
  check_tensors(gguf, c);
  return c;
}

ModelConfig config_from_node(Reader& r) {
  const auto size = [&](std::string_view key, std::uint64_t max) {
    return static_cast<std::uint32_t>(r.integer(key, 1, static_cast<std::int64_t>(max)));
  };
  const auto size_or = [&](std::string_view key, std::uint64_t min, std::uint64_t max, std::uint64_t otherwise) {
    return static_cast<std::uint32_t>(
        r.integer(key, static_cast<std::int64_t>(min), static_cast<std::int64_t>(max), static_cast<std::int64_t>(otherwise)));
  };
  ModelConfig c;
  c.family = r.choice("family", {"llama", "mistral", "mixtral", "qwen2", "qwen3", "bitnet"}, "llama");
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
  c.renormalise_experts = r.boolean("renormalise_experts", true);
  c.tied_embedding = r.boolean("tied_embedding", false);
  c.qkv_bias = r.boolean("qkv_bias", c.family == "qwen2");
  c.qk_norm = r.boolean("qk_norm", c.family == "qwen3");
  c.sub_norms = r.boolean("sub_norms", c.family == "bitnet");
  c.rope_factors = r.boolean("rope_factors", false);
  c.window = size_or("window", 0, kMaxContext, 0);
  c.norm_eps = static_cast<float>(r.number("norm_eps", 0, 1, 1e-5));
  const std::string activation =
      r.choice("activation", {"silu", "relu", "relu_squared", "gelu"}, c.family == "bitnet" ? "relu_squared" : "silu");
  for (const auto& [name, value] : kActivations) {
    if (name == activation) c.activation = value;
  }
  c.predictor_rank = size_or("predictor_rank", 0, kMaxWidth, 0);
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(), [&c](const Family& known) { return known.name == c.family; });
  c.rope.style = family != kFamilies.end() ? family->style : RopeStyle::interleaved;
  c.rope.base = static_cast<float>(r.number("rope_base", 1, 1e12, 10000));
  c.rope.dims = size_or("rope_dims", 2, kMaxHeadDim, c.head_dim);
  c.rope.position_scale = static_cast<float>(1 / r.number("rope_scale", 1e-3, 1e6, 1));
  check_config(c, [&](std::string_view key, std::string_view problem) { r.fail(key, problem); });
  r.finish();
  return c;
}

}  // namespace vitro
