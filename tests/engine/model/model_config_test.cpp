#include "engine/model/model_config.hpp"

#include <limits>

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(ModelConfig, reads_the_embedded_dense_model) {
  const ModelConfig c = config_from_gguf(Gguf::open(embedded("stories-reglu-3m.f16.gguf")));
  EXPECT_EQ(c.family, "llama");
  EXPECT_EQ(c.name, "stories-reglu-3m");
  EXPECT_EQ(c.layers, 4u);
  EXPECT_EQ(c.width, 256u);
  EXPECT_EQ(c.heads, 4u);
  EXPECT_EQ(c.kv_heads, 2u);
  EXPECT_EQ(c.head_dim, 64u);
  EXPECT_EQ(c.ffn, 768u);
  EXPECT_EQ(c.vocab, 1024u);
  EXPECT_EQ(c.context, 256u);
  EXPECT_EQ(c.experts, 0u);
  EXPECT_TRUE(c.tied_embedding);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(c.activation, Activation::relu);
  EXPECT_EQ(c.rope.style, RopeStyle::interleaved);
  EXPECT_EQ(c.rope.dims, 64u);
  EXPECT_FLOAT_EQ(c.norm_eps, 1e-5f);
}

TEST(ModelConfig, reads_the_embedded_mixture) {
  const ModelConfig c = config_from_gguf(Gguf::open(embedded("stories-moe-6m.f16.gguf")));
  EXPECT_EQ(c.family, "mixtral");
  EXPECT_EQ(c.experts, 8u);
  EXPECT_EQ(c.experts_used, 2u);
  EXPECT_EQ(c.ffn, 256u);
  EXPECT_EQ(c.activation, Activation::silu);
  EXPECT_TRUE(c.renormalise_experts);
}

TEST(ModelConfig, every_quantised_file_has_the_same_shape) {
  const ModelConfig f16 = config_from_gguf(Gguf::open(embedded("stories-reglu-3m.f16.gguf")));
  for (const char* scheme : {"q8_0", "q6_k", "q4_k_s", "q4_0"}) {
    const ModelConfig c = config_from_gguf(Gguf::open(embedded(std::string("stories-reglu-3m.") + scheme + ".gguf")));
    EXPECT_EQ(c.ffn, f16.ffn);
    EXPECT_EQ(c.activation, f16.activation);
  }
}

ModelConfig written(const SmallModel& model) {
  const ScratchFolder folder;
  model.write(folder / "m.gguf");
  return config_from_gguf(Gguf::open(folder / "m.gguf"));
}

TEST(ModelConfig, qwen2_has_biases_and_half_split_rotation) {
  SmallModel model;
  model.architecture = "qwen2";
  model.config.qkv_bias = true;
  const ModelConfig c = written(model);
  EXPECT_EQ(c.family, "qwen2");
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_EQ(c.rope.style, RopeStyle::half_split);
}

TEST(ModelConfig, qwen3_has_norms_of_heads_of_their_own_size) {
  SmallModel model;
  model.architecture = "qwen3";
  model.config.qk_norm = QkNorm::heads;
  model.config.head_dim = 24;  // 4 heads: wider than the model
  model.extra = {{"qwen3.attention.key_length", std::uint32_t{24}}, {"qwen3.attention.value_length", std::uint32_t{24}}};
  const ModelConfig c = written(model);
  EXPECT_EQ(c.family, "qwen3");
  EXPECT_EQ(c.qk_norm, QkNorm::heads);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(c.q_width(), 96u);
  EXPECT_EQ(c.rope.dims, 24u);
  EXPECT_EQ(c.rope.style, RopeStyle::half_split);
  model.config.qk_norm = QkNorm::none;
  EXPECT_NE(message_of([&] { written(model); }).find("attn_q_norm.weight: the tensor is missing"), std::string::npos);
}

TEST(ModelConfig, bitnet_has_sub_norms_and_its_own_activation) {
  SmallModel model;
  model.config.sub_norms = true;
  const std::vector<std::pair<std::string, Activation>> activations{
      {"bitnet", Activation::silu}, {"bitnet-25", Activation::relu_squared}, {"bitnet-b1.58", Activation::relu_squared}};
  for (const auto& [architecture, activation] : activations) {
    model.architecture = architecture;
    const ModelConfig c = written(model);
    EXPECT_EQ(c.family, "bitnet");
    EXPECT_TRUE(c.sub_norms);
    EXPECT_EQ(c.activation, activation) << architecture;
    EXPECT_EQ(c.rope.style, RopeStyle::half_split);
  }
  const std::vector<Weight> by_neuron = weights_of(model.config, true);
  EXPECT_TRUE(std::ranges::any_of(by_neuron, [](const Weight& w) { return w.role == Role::ffn_sub_norm; }));
  EXPECT_TRUE(std::ranges::any_of(by_neuron, [](const Weight& w) { return w.role == Role::ffn_bundle; }));
}

// So whoever lays out experts meets no such norm.
TEST(ModelConfig, a_mixture_with_a_norm_before_the_down_projection_is_refused_where_it_is_read) {
  SmallModel model;
  model.config.sub_norms = true;
  model.config.experts = 4, model.config.experts_used = 2;
  for (const char* architecture : {"bitnet", "bitnet-25", "bitnet-b1.58"}) {
    model.architecture = architecture;
    const std::string said = message_of([&] { written(model); });
    EXPECT_NE(said.find(std::string(architecture) + ".experts: can not be combined with a norm before"), std::string::npos) << said;
  }
}

TEST(ModelConfig, rope_variants_and_window_are_read) {
  SmallModel model;
  model.config.rope_factors = true;
  model.extra = {{"llama.rope.scaling.type", std::string("linear")},
                 {"llama.rope.scaling.factor", 4.0f},
                 {"llama.rope.freq_base", 500000.0f},
                 {"llama.attention.sliding_window", std::uint32_t{16}}};
  const ModelConfig c = written(model);
  EXPECT_EQ(c.family, "mistral");
  EXPECT_TRUE(c.rope_factors);
  EXPECT_FLOAT_EQ(c.rope.position_scale, 0.25f);
  EXPECT_FLOAT_EQ(c.rope.base, 500000);
  EXPECT_EQ(c.window, 16u);
}

struct Bad {
  std::string key;
  GgufValue value;
  std::string expected;
};

TEST(ModelConfig, thresholds_may_differ_by_layer) {
  ScratchFolder folder;
  SmallModel model;
  model.config.predictor_rank = 32;
  const std::vector<float> predictor{-0.5f, 0.25f}, firing{0.125f, 1.5f};
  model.extra = {{"vitro.predictor.thresholds", gguf_array(std::span(predictor))},
                 {"vitro.predictor.relu", false},
                 {"vitro.feed_forward.thresholds", gguf_array(std::span(firing))}};
  model.write(folder / "m.gguf");
  const ModelConfig config = config_from_gguf(Gguf::open(folder / "m.gguf"));
  EXPECT_EQ(config.predictor_thresholds, predictor);
  EXPECT_FALSE(config.predictor_relu);
  EXPECT_EQ(config.firing_thresholds, firing);
  model.extra[2].second = gguf_array(std::span(firing).first(1));
  model.write(folder / "m.gguf");
  EXPECT_NE(message_of([&] { config_from_gguf(Gguf::open(folder / "m.gguf")); }).find("1 thresholds for 2 layers"), std::string::npos);
}

TEST(ModelConfig, value_heads_are_read_as_converters_write_them) {
  SmallModel model;
  EXPECT_FALSE(written(model).value_head);
  model.config.value_head = true;  // a row as ggml writes it, [64]
  EXPECT_TRUE(written(model).value_head);
  EXPECT_FALSE(written(model).value_bias);
  model.extra = {{"llama.pooling_type", std::uint32_t{4}}};
  model.config.value_bias = true;
  EXPECT_TRUE(written(model).value_bias);
  model.change = [](std::vector<Weight>& weights) {  // as NumPy's writer has it, [64, 1], which is how a router lies
    for (Weight& weight : weights) weight.role = weight.role == Role::value_head ? Role::router : weight.role;
  };
  EXPECT_TRUE(written(model).value_head);
}

TEST(ModelConfig, value_heads_of_another_shape_or_pooling_are_refused) {
  SmallModel model;
  model.config.value_head = true;
  const auto refusal = [&] { return message_of([&] { written(model); }); };
  model.change = [](std::vector<Weight>& weights) { weights.back().columns = 63; };
  EXPECT_NE(refusal().find("m.gguf: cls.output.weight: the tensor has shape [63] (expected [64])"), std::string::npos) << refusal();
  model.change = [](std::vector<Weight>& weights) { weights.back().role = Role::router, weights.back().rows = 2; };  // of two labels
  EXPECT_NE(refusal().find("m.gguf: cls.output.weight: the tensor has shape [64, 2] (expected [64])"), std::string::npos) << refusal();
  model.change = [](std::vector<Weight>& weights) { weights.back().name = "cls.output.bias"; };
  EXPECT_NE(refusal().find("cls.output.weight: the tensor is missing, but there is a cls.output.bias"), std::string::npos) << refusal();
  model.change = [](auto&) {};
  model.extra = {{"llama.pooling_type", std::uint32_t{1}}};
  EXPECT_NE(refusal().find("llama.pooling_type: is 1, but there is a cls.output.weight (expected 4"), std::string::npos) << refusal();
  model.config.value_head = false;
  model.extra = {{"llama.pooling_type", std::uint32_t{4}}};
  EXPECT_NE(refusal().find("cls.output.weight: the tensor is missing, but llama.pooling_type is 4"), std::string::npos) << refusal();
}

TEST(ModelConfig, wrong_metadata_is_refused_by_key) {
  const std::vector<Bad> cases{
      {"general.architecture", std::string("gpt2"), "general.architecture"},
      {"general.architecture", std::uint32_t{1}, "has type uint32 (expected string)"},
      {"llama.block_count", std::uint32_t{0}, "llama.block_count: is 0"},
      {"llama.block_count", std::int32_t{-3}, "llama.block_count: is -3"},
      {"llama.block_count", 2.0f, "expected an integer"},
      {"llama.block_count", std::uint64_t{1} << 60, "llama.block_count"},
      {"llama.block_count", std::uint32_t{4096}, "4096 layers in a file of"},
      {"llama.embedding_length", std::uint32_t{128}, "expected [128"},
      {"llama.attention.head_count", std::uint32_t{3}, "not a multiple"},
      {"llama.attention.head_count_kv", std::uint32_t{3}, "not a multiple"},
      {"llama.feed_forward_length", std::uint32_t{97}, "ffn_gate"},
      {"llama.attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN(), "layer_norm_rms_epsilon"},
      {"llama.rope.dimension_count", std::uint32_t{15}, "rotary"},
      {"llama.rope.scaling.type", std::string("yarn"), "yarn"},
      {"llama.vocab_size", std::uint32_t{49}, "token_embd"},
      {"llama.expert_count", std::uint32_t{8}, "expert_used_count: the key is missing"},
      {"vitro.feed_forward.activation", std::string("swish"), "swish"},
  };
  for (const Bad& bad : cases) {
    SmallModel model;
    model.extra = {{bad.key, bad.value}};
    const std::string message = message_of([&] { written(model); });
    EXPECT_NE(message.find(bad.expected), std::string::npos) << bad.key << ": " << message;
    EXPECT_NE(message.find("m.gguf"), std::string::npos) << message;
  }
}

TEST(ModelConfig, missing_misshapen_and_unknown_tensors_are_refused_by_name) {
  SmallModel model;
  model.change = [](std::vector<Weight>& weights) { weights.erase(weights.begin() + 3); };
  EXPECT_NE(message_of([&] { written(model); }).find("blk.0.attn_k.weight: the tensor is missing"), std::string::npos);
  model.change = [](std::vector<Weight>& weights) { weights[4].rows += 1; };
  EXPECT_NE(message_of([&] { written(model); }).find("blk.0.attn_v.weight: the tensor has shape [64, 33] (expected [64, 32])"),
            std::string::npos);
  model.change = [](std::vector<Weight>& weights) { weights[5].name = "blk.0.attn_out_proj.weight"; };
  EXPECT_NE(message_of([&] { written(model); }).find("attn_output"), std::string::npos);
  model.change = [](std::vector<Weight>& weights) {
    weights.push_back(weights.back());
    weights.back().name = "blk.0.attn_q_norm.weight";
  };
  EXPECT_NE(message_of([&] { written(model); }).find("attn_q_norm.weight: a model of this family has no such tensor"), std::string::npos);
}

}  // namespace
}  // namespace vitro
