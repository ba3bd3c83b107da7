// Mixtures as public converters write them: which keys and tensors make which configuration, and what is refused.
#include "engine/model/model_family.hpp"

#include <set>

#include "engine/model/model_config.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using Extra = std::vector<std::pair<std::string, GgufValue>>;

SmallModel mixture(const std::string& architecture, const Extra& extra = {}) {
  SmallModel model;
  model.architecture = architecture;
  model.config.experts = 4, model.config.experts_used = 2, model.config.ffn = 96;
  for (const auto& [key, value] : extra) model.extra.emplace_back(architecture + "." + key, value);
  return model;
}

ModelConfig config_of(const SmallModel& model) {
  const ScratchFolder folder;
  model.write(folder / "m.gguf");
  return config_from_gguf(Gguf::open(folder / "m.gguf"));
}

std::uint32_t u32(std::uint32_t value) { return value; }

TEST(ModelFamily, architectures_are_told_apart) {
  std::set<std::string_view> names;
  for (const ModelFamily& family : model_families()) EXPECT_TRUE(names.insert(family.architecture).second) << family.architecture;
}

TEST(ModelFamily, qwen2moe_has_a_gated_expert_beside_the_others) {
  SmallModel model = mixture("qwen2moe", {{"feed_forward_length", u32(300)},
                                          {"expert_feed_forward_length", u32(32)},
                                          {"expert_shared_feed_forward_length", u32(64)}});
  model.config.ffn = 32, model.config.shared_ffn = 64, model.config.shared_gate = model.config.qkv_bias = true;
  const ModelConfig c = config_of(model);
  EXPECT_EQ(c.family, "qwen2moe");
  EXPECT_EQ(c.ffn, 32u);
  EXPECT_EQ(c.shared_ffn, 64u);
  EXPECT_TRUE(c.shared_gate && c.qkv_bias);
  EXPECT_FALSE(c.renormalise_experts);
  EXPECT_EQ(c.rope.style, RopeStyle::half_split);
  // The first files had one length: that of the shared expert, which is as wide as all chosen ones.
  model.extra = {{"qwen2moe.feed_forward_length", u32(64)}};
  EXPECT_EQ(config_of(model).ffn, 32u);
}

TEST(ModelFamily, qwen3moe_and_olmoe_differ_in_norms_and_in_what_weights_add_up_to) {
  SmallModel model = mixture("qwen3moe", {{"feed_forward_length", u32(300)}, {"expert_feed_forward_length", u32(96)}});
  model.config.qk_norm = QkNorm::heads;
  ModelConfig c = config_of(model);
  EXPECT_EQ(c.qk_norm, QkNorm::heads);
  EXPECT_TRUE(c.renormalise_experts);
  EXPECT_EQ(c.shared_ffn, 0u);
  model = mixture("olmoe");
  model.config.qk_norm = QkNorm::whole;
  c = config_of(model);
  EXPECT_EQ(c.family, "olmoe");
  EXPECT_EQ(c.qk_norm, QkNorm::whole);
  EXPECT_EQ(c.ffn, 96u);
  EXPECT_FALSE(c.renormalise_experts);
  EXPECT_EQ(c.rope.style, RopeStyle::half_split);
}

TEST(ModelFamily, phimoe_has_layer_norms_biases_and_a_sparse_mixer) {
  SmallModel model = mixture("phimoe", {{"rope.scaling.original_context_length", u32(16)}, {"rope.scaling.attn_factor", 1.25f}});
  ModelConfig& wanted = model.config;
  wanted.norm = Norm::layer;
  wanted.qkv_bias = wanted.attn_output_bias = wanted.output_bias = wanted.rope_factors_by_length = true;
  const ModelConfig c = config_of(model);
  EXPECT_EQ(c.norm, Norm::layer);
  EXPECT_EQ(c.router, ops::Scores::sparse_mixer);
  EXPECT_FALSE(c.renormalise_experts);
  EXPECT_TRUE(c.attn_output_bias && c.output_bias && c.qkv_bias);
  EXPECT_TRUE(c.rope_factors_by_length);
  EXPECT_EQ(c.rope.original_context, 16u);
  EXPECT_EQ(c.rope.attention_factor, 1.25f);
  const std::string missing = message_of([&] {
    SmallModel short_only = model;
    short_only.change = [](auto& weights) {
      std::erase_if(weights, [](const Weight& w) { return w.role == Role::rope_factors_long; });
    };
    config_of(short_only);
  });
  EXPECT_NE(missing.find("rope_factors_long.weight: the tensor is missing (expected it with shape [8])"), std::string::npos) << missing;
}

TEST(ModelFamily, phi3_has_q_k_and_v_in_one_matrix_and_gate_and_up_in_another) {
  SmallModel model;
  model.architecture = "phi3";
  model.config.joined_qkv = model.config.joined_gate_up = true;
  model.extra = {{"phi3.attention.sliding_window", u32(24)}};
  ModelConfig c = config_of(model);
  EXPECT_EQ(c.family, "phi3");
  EXPECT_TRUE(c.joined_qkv && c.joined_gate_up);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(c.window, 24u);
  EXPECT_EQ(c.rope.style, RopeStyle::half_split);
  model.config.qkv_bias = model.config.rope_factors_by_length = true;
  model.extra = {{"phi3.rope.scaling.original_context_length", u32(16)}, {"phi3.rope.scaling.attn_factor", 1.25f}};
  c = config_of(model);
  EXPECT_TRUE(c.qkv_bias && c.rope_factors_by_length);
  EXPECT_EQ(c.rope.attention_factor, 1.25f);
  EXPECT_EQ(c.window, 0u);
  model.config.joined_qkv = model.config.joined_gate_up = false;
  c = config_of(model);
  EXPECT_FALSE(c.joined_qkv || c.joined_gate_up) << "a file may also have them apart";
  // Matrices that are not what the metadata asks for, and a family that does not join any.
  model.config.joined_qkv = true;
  model.change = [](std::vector<Weight>& weights) {
    for (Weight& w : weights) {
      if (w.role == Role::attn_qkv && w.layer == 1) w.rows -= 16;
    }
  };
  const std::string shape = message_of([&] { config_of(model); });
  EXPECT_NE(shape.find("blk.1.attn_qkv.weight: the tensor has shape [64, 112] (expected [64, 128])"), std::string::npos) << shape;
  SmallModel llama;
  llama.config.joined_qkv = true;
  const std::string missing = message_of([&] { config_of(llama); });
  EXPECT_NE(missing.find("blk.0.attn_q.weight: the tensor is missing"), std::string::npos) << missing;
}

TEST(ModelFamily, deepseek_begins_with_dense_layers_and_shares_experts) {
  SmallModel model = mixture("deepseek", {{"feed_forward_length", u32(160)},
                                          {"expert_feed_forward_length", u32(32)},
                                          {"expert_shared_count", u32(2)},
                                          {"leading_dense_block_count", u32(1)},
                                          {"expert_weights_scale", 1.5f}});
  model.config.ffn = 32, model.config.shared_ffn = 64, model.config.dense_layers = 1, model.config.dense_ffn = 160;
  const ModelConfig c = config_of(model);
  EXPECT_EQ(c.dense_layers, 1u);
  EXPECT_EQ(c.dense_ffn, 160u);
  EXPECT_EQ(c.shared_ffn, 64u);
  EXPECT_FALSE(c.shared_gate);
  EXPECT_EQ(c.expert_scale, 1.5f);
  EXPECT_FALSE(c.renormalise_experts);
  EXPECT_EQ(c.rope.style, RopeStyle::interleaved);
  EXPECT_EQ(c.ffn_of(0), 160u);
  EXPECT_EQ(c.ffn_of(1), 32u);
  EXPECT_FALSE(c.has_experts(0));
  EXPECT_TRUE(c.has_experts(1));
}

// Converters that squeeze tensors write [64], others [64, 1].
TEST(ModelFamily, a_dimension_of_one_behind_the_others_says_nothing) {
  SmallModel model = mixture("qwen2moe", {{"expert_feed_forward_length", u32(96)}});
  model.config.shared_ffn = 96, model.config.shared_gate = model.config.qkv_bias = true;
  model.change = [](std::vector<Weight>& weights) {
    for (Weight& w : weights) {
      if (w.role == Role::shared_router) w.role = Role::predictor_in;  // which is a matrix, of one row here
    }
  };
  EXPECT_TRUE(config_of(model).shared_gate);
}

TEST(ModelFamily, files_that_contradict_themselves_are_refused) {
  const auto error = [](const SmallModel& model) { return message_of([&] { config_of(model); }); };
  const auto has = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("m.gguf"), std::string::npos) << message;
  };
  SmallModel qwen = mixture("qwen3moe");
  qwen.config.qk_norm = QkNorm::heads;
  EXPECT_EQ(error(qwen), "");
  const auto with = [&](const std::string& key, GgufValue value) {
    SmallModel model = qwen;
    model.extra.emplace_back("qwen3moe." + key, std::move(value));
    return error(model);
  };
  has(with("expert_count", u32(0)), "qwen3moe.expert_count: is 0 (expected 1 to");
  has(with("expert_count", u32(5)), "blk.0.ffn_gate_inp.weight: the tensor has shape [64, 4] (expected [64, 5])");
  has(with("expert_used_count", u32(5)), "qwen3moe.expert_used_count: is 5 (expected up to qwen3moe.expert_count, 4)");
  has(with("expert_feed_forward_length", u32(64)), "blk.0.ffn_gate_exps.weight: the tensor has shape [64, 96, 4] (expected [64, 64, 4])");
  has(with("expert_gating_func", u32(2)), "qwen3moe.expert_gating_func: is 2 (expected 1, a softmax)");
  SmallModel flat = qwen;
  flat.change = [](std::vector<Weight>& weights) {
    for (Weight& w : weights) {
      if (w.role == Role::ffn_up && w.layer == 1) w.experts = 3;
    }
  };
  has(error(flat), "blk.1.ffn_up_exps.weight: the tensor has shape [64, 96, 3] (expected [64, 96, 4])");
  SmallModel deepseek = mixture("deepseek", {{"expert_shared_count", u32(0)}, {"leading_dense_block_count", u32(3)}});
  has(error(deepseek), "deepseek.leading_dense_block_count: is 3 (expected 0 to 2)");
  deepseek.extra.pop_back();
  has(error(deepseek), "deepseek.leading_dense_block_count: the key is missing");
  SmallModel phi = mixture("phimoe", {{"rope.scaling.attn_factor", 1.25f}, {"rope.dimension_count", u32(8)}});
  phi.config.norm = Norm::layer;
  has(error(phi), "8 of 16 dimensions turn (expected all of them, or no factor)");
  has(error(mixture("qwen4moe")), "general.architecture: \"qwen4moe\" is not supported (expected one of: llama, qwen2, ");
}

}  // namespace
}  // namespace vitro
