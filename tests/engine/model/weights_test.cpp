#include "engine/model/weights.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

TEST(Weights, names_are_those_of_gguf_files) {
  EXPECT_EQ(tensor_name(Role::token_embedding, -1, false), "token_embd.weight");
  EXPECT_EQ(tensor_name(Role::attn_q_bias, 2, false), "blk.2.attn_q.bias");
  EXPECT_EQ(tensor_name(Role::ffn_up, 3, false), "blk.3.ffn_up.weight");
  EXPECT_EQ(tensor_name(Role::ffn_up, 3, true), "blk.3.ffn_up_exps.weight");
  EXPECT_EQ(tensor_name(Role::router, 0, true), "blk.0.ffn_gate_inp.weight");
}

// A mixture's layers without experts have one FFN under its plain names, and each layer the FFN that stands beside its experts.
TEST(Weights, of_a_mixture_are_those_of_each_layer) {
  SmallModel model;
  ModelConfig& c = model.config;
  c.experts = 4, c.experts_used = 2, c.dense_layers = 1, c.dense_ffn = 160, c.shared_ffn = 192, c.shared_gate = true, c.norm = Norm::layer;
  const WeightStore store = phantom_weights(c, Format::q8_0, FileId{9});
  EXPECT_EQ(store.get(Role::ffn_up, 0).name, "blk.0.ffn_up.weight");
  EXPECT_EQ(store.get(Role::ffn_up, 0).rows, 160u);
  EXPECT_EQ(store.get(Role::ffn_up, 0).experts, 1u);
  EXPECT_EQ(store.get(Role::ffn_up, 1).name, "blk.1.ffn_up_exps.weight");
  EXPECT_EQ(store.get(Role::ffn_up, 1).rows, 96u);
  EXPECT_EQ(store.get(Role::ffn_up, 1).experts, 4u);
  for (const Role role : {Role::router, Role::shared_router, Role::shared_gate, Role::shared_up, Role::shared_down}) {
    EXPECT_EQ(store.find(role, 0), nullptr) << to_string(role);
    EXPECT_NE(store.find(role, 1), nullptr) << to_string(role);
  }
  EXPECT_EQ(store.get(Role::shared_down, 1).columns, 192u);
  EXPECT_EQ(store.get(Role::shared_router, 1).format, Format::f32);
  EXPECT_EQ(store.get(Role::ffn_norm_bias, 1).name, "blk.1.ffn_norm.bias");
  const WeightStore by_neuron = phantom_weights(c, Format::q8_0, FileId{9}, BundleForm::one_read);
  EXPECT_EQ(by_neuron.find(Role::ffn_bundle, 0), nullptr);
  EXPECT_EQ(by_neuron.get(Role::ffn_down, 0).columns, 160u);
  EXPECT_EQ(by_neuron.get(Role::ffn_bundle, 1).experts, 4u);
}

TEST(Weights, a_store_finds_by_role_and_layer_and_adds_up) {
  SmallModel model;
  model.config.experts = 4, model.config.experts_used = 2;
  const WeightStore store = phantom_weights(model.config, Format::q8_0, FileId{9});
  EXPECT_EQ(store.find(Role::attn_q_bias, 0), nullptr);
  EXPECT_EQ(store.get(Role::router, 1).format, Format::f32);
  EXPECT_EQ(store.get(Role::ffn_down, 1).rows, 64u);
  EXPECT_EQ(store.get(Role::ffn_down, 1).columns, 96u);
  EXPECT_EQ(store.get(Role::ffn_down, 1).matrix_bytes(), 64 * row_bytes(Format::q8_0, 96));
  EXPECT_EQ(store.ffn_bytes(), 2ull * 4 * 3 * 64 * 96 / 32 * 34);
  Bytes sum = 0;
  for (const Weight& w : store.all()) sum += w.extent.length;
  EXPECT_EQ(store.total_bytes(), sum);
}

TEST(Weights, extents_start_on_pages_and_do_not_overlap) {
  const WeightStore store = phantom_weights(SmallModel().config, Format::f16, FileId{});
  Bytes end = 0;
  for (const Weight& w : store.all()) {
    EXPECT_EQ(w.extent.offset % kPageSize, 0u) << w.name;
    EXPECT_GE(w.extent.offset, end) << w.name;
    end = w.extent.offset + w.extent.length;
  }
}

TEST(Weights, bundles_stand_for_gate_up_and_down) {
  SmallModel model;
  model.config.experts = 4, model.config.experts_used = 2;
  for (const BundleForm form : {BundleForm::one_read, BundleForm::two_phases}) {
    const WeightStore store = phantom_weights(model.config, Format::q8_0, FileId{9}, form);
    const Weight& w = store.get(Role::ffn_bundle, 1);
    EXPECT_EQ(w.name, "blk.1.ffn_bundle");
    EXPECT_EQ(w.form, form);
    EXPECT_EQ(w.layout, Layout::rows);
    EXPECT_EQ(w.experts, 4u);
    EXPECT_EQ(w.matrix_bytes(), w.bundles().bytes());
    EXPECT_EQ(w.extent.length, w.stored_bytes());
    EXPECT_EQ(w.payload_bytes(), 4 * 3 * 96 * row_bytes(Format::q8_0, 64));
    for (const Role role : {Role::ffn_gate, Role::ffn_up, Role::ffn_down}) EXPECT_EQ(store.find(role, 1), nullptr);
    EXPECT_EQ(store.ffn_bytes(), 2 * w.extent.length);
    EXPECT_NE(store.find(Role::router, 1), nullptr);
  }
}

// The scales of 4-bit neurons stand behind their bundles and are a ninth of the weights' bytes.
TEST(Weights, automatic_bundles_of_q4_0_have_their_scales_beside_them) {
  const SmallModel model;
  const WeightStore store = phantom_weights(model.config, Format::q4_0, FileId{9}, BundleForm::automatic);
  const Weight &w = store.get(Role::ffn_bundle, 1), &scales = store.get(Role::ffn_scales, 1);
  EXPECT_EQ(w.form, BundleForm::scales_resident);
  EXPECT_EQ(w.payload_bytes(), 3 * 96 * 32u);
  EXPECT_EQ(scales.name, "blk.1.ffn_scales");
  EXPECT_EQ(scales.payload_bytes(), 3 * 96 * 4u);
  EXPECT_EQ(scales.extent.offset, w.extent.offset + w.extent.length);
  EXPECT_EQ(store.ffn_bytes(), 2 * (w.extent.length + scales.extent.length));
  const WeightStore inside = phantom_weights(model.config, Format::q4_0, FileId{9}, BundleForm::scales_inline);
  EXPECT_EQ(inside.find(Role::ffn_scales, 1), nullptr);
}

TEST(Weights, a_format_that_does_not_fit_the_rows_is_refused) {
  const std::string message = message_of([] { phantom_weights(SmallModel().config, Format::q4_k, FileId{}); });
  EXPECT_NE(message.find("token_embd.weight: rows of 64 elements are not whole q4_k blocks of 256"), std::string::npos) << message;
}

}  // namespace
}  // namespace vitro
