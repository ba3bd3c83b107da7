#include "engine/torture/random_model.hpp"

#include <fmt/format.h>

#include "engine/base/rng.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/weights.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kVocab = 320, kContext = 256;

struct Family {
  const char* architecture;
  QkNorm qk_norm;
  bool joined = false, sub_norms = false, leading_dense = false;
};

ModelConfig shape_of(const RandomModel& model, Rng& rng, const Family& family) {
  ModelConfig c;
  const auto among = [&](std::initializer_list<std::uint32_t> values) { return *(values.begin() + rng.below(values.size())); };
  c.layers = model.layers;
  c.width = among({64, 128});
  c.heads = among({2, 4});
  c.kv_heads = among({1, 2});
  c.head_dim = c.width / c.heads;
  c.rope.dims = c.head_dim;
  c.ffn = among({64, 128, 192});
  c.vocab = kVocab;
  c.context = kContext;
  c.qk_norm = family.qk_norm;
  c.joined_qkv = c.joined_gate_up = family.joined;
  c.tied_embedding = rng.below(3) == 0;
  if (model.mixture) {
    c.experts = 8;  // as the loads that configurations state
    c.experts_used = 1 + static_cast<std::uint32_t>(rng.below(3));
  }
  c.sub_norms = family.sub_norms;
  if (family.leading_dense) {
    c.dense_layers = 1;
    c.dense_ffn = c.ffn + 64;
    c.shared_ffn = c.ffn;
  }
  return c;
}

std::vector<std::pair<std::string, GgufValue>> metadata(const ModelConfig& c, const Family& family, bool relu, std::uint64_t seed) {
  const std::string prefix = std::string(family.architecture) + ".";
  std::vector<std::pair<std::string, GgufValue>> values{{"general.architecture", std::string(family.architecture)},
                                                        {"general.name", fmt::format("random {}", seed)},
                                                        {prefix + "block_count", c.layers},
                                                        {prefix + "embedding_length", c.width},
                                                        {prefix + "attention.head_count", c.heads},
                                                        {prefix + "attention.head_count_kv", c.kv_heads},
                                                        {prefix + "feed_forward_length", c.dense_layers > 0 ? c.dense_ffn : c.ffn},
                                                        {prefix + "context_length", c.context},
                                                        {prefix + "attention.layer_norm_rms_epsilon", 1e-5f}};
  if (relu && !family.sub_norms) values.emplace_back("vitro.feed_forward.activation", std::string("relu"));
  if (c.experts > 0) {
    values.emplace_back(prefix + "expert_count", c.experts);
    values.emplace_back(prefix + "expert_used_count", c.experts_used);
    values.emplace_back(prefix + "expert_feed_forward_length", c.ffn);
  }
  if (family.leading_dense) {
    values.emplace_back(prefix + "leading_dense_block_count", c.dense_layers);
    values.emplace_back(prefix + "expert_shared_count", std::uint32_t{1});
  }
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  while (tokens.size() < c.vocab) {
    const auto letter = static_cast<char>('a' + (tokens.size() - 259) % 26);
    tokens.push_back(tokens.size() < 285 ? std::string(1, letter) : fmt::format("\u2581{}{}", letter, tokens.size()));
    types.push_back(1);
  }
  values.emplace_back("tokenizer.ggml.model", std::string("llama"));
  values.emplace_back("tokenizer.ggml.tokens", gguf_array(std::move(tokens)));
  values.emplace_back("tokenizer.ggml.scores", gguf_array(std::span<const float>(std::vector<float>(c.vocab, -1.0f))));
  values.emplace_back("tokenizer.ggml.token_type", gguf_array(std::span<const std::int32_t>(types)));
  values.emplace_back("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  values.emplace_back("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  return values;
}

}  // namespace

void write_random_model(const RandomModel& model, const std::string& path) {
  Rng rng(mix(model.seed, {model.mixture}));
  static constexpr Family kDense[] = {{"llama", QkNorm::none}, {"qwen3", QkNorm::heads}};
  static constexpr Family kJoined{"phi3", QkNorm::none, true};
  static constexpr Family kNormed{"bitnet-b1.58", QkNorm::none, false, true};
  static constexpr Family kLeading{"deepseek", QkNorm::none, false, false, true};
  static constexpr Family kMixtures[] = {{"llama", QkNorm::none}, {"qwen3moe", QkNorm::heads}, {"olmoe", QkNorm::whole}};
  const bool joined = !model.mixture && Rng(mix(model.seed, {2})).below(3) == 0;  // apart: others stay the models that they were
  const Family drawn = model.mixture ? kMixtures[rng.below(3)] : kDense[rng.below(2)];
  const Family family = model.other ? (model.mixture ? kLeading : kNormed) : joined ? kJoined : drawn;
  ModelConfig config = shape_of(model, rng, family);
  config.value_head = model.value_head;
  const bool relu = rng.below(2) == 0;
  GgufWriter out(path);
  for (auto& [key, value] : metadata(config, family, relu, model.seed)) out.add(key, value);
  const std::vector<Weight> weights = weights_of(config);
  const auto format_of = [&](const Weight& w) { return is_vector(w.role) || w.role == Role::router ? Format::f32 : model.matrices; };
  for (const Weight& w : weights) {
    std::vector<std::uint64_t> dims{w.columns};
    if (!is_vector(w.role)) dims.push_back(w.rows);
    if (w.experts > 1) dims.push_back(w.experts);
    out.add_tensor(w.name, dims, format_of(w));
  }
  std::vector<float> row;
  std::vector<std::byte> bytes;
  for (const Weight& w : weights) {
    row.resize(w.columns);
    bytes.resize(row_bytes(format_of(w), row.size()));
    const float middle = is_vector(w.role) ? 1 : 0;  // norms
    for (std::uint32_t r = 0; r < w.rows * w.experts; ++r) {
      for (float& x : row) x = middle + 0.25f * static_cast<float>(rng.normal());
      quantise_row(format_of(w), row.data(), bytes.data(), row.size());
      out.write(bytes);
    }
  }
  out.commit();
}

}  // namespace vitro
