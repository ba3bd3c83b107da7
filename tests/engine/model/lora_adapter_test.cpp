#include "engine/model/lora_adapter.hpp"

#include <gmock/gmock.h>

#include "engine/quant/outlier_rows.hpp"
#include "tests/engine/model/lora_support.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

TEST(LoraAdapter, of_a_file_knows_roles_shapes_scales_and_where_the_bytes_are) {
  const ScratchFolder folder;
  SmallModel().write(folder / "base.gguf");
  SmallAdapter().write(folder / "lora.gguf");
  const Gguf base = Gguf::open(folder / "base.gguf"), gguf = Gguf::open(folder / "lora.gguf");
  LoraAdapter adapter = adapter_from_file("small", 0.5, LoraFile::open(folder / "lora.gguf", base), config_from_gguf(base));
  EXPECT_EQ(adapter.matrices.size(), 2u);
  EXPECT_EQ(adapter.find(Role::attn_q, 1), nullptr);
  const LoraMatrices* down = adapter.find(Role::ffn_down, 1);
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->scale, 1);
  EXPECT_EQ(down->rank(), 4u);
  EXPECT_EQ(down->a.columns, 96u);
  EXPECT_EQ(down->b.rows, 64u);
  EXPECT_EQ(down->b.extent.offset, gguf.find_tensor("blk.1.ffn_down.weight.lora_b")->offset);
  EXPECT_EQ(adapter.extent().offset, gguf.data_offset());
  EXPECT_EQ(adapter.extent().offset + adapter.extent().length, down->b.extent.offset + down->b.extent.length);
  adapter.set_file(FileId{7});
  EXPECT_EQ(adapter.extent().file, FileId{7});
}

TEST(LoraAdapter, what_only_a_merge_can_adapt_is_refused_with_file_and_tensor) {
  const ScratchFolder folder;
  SmallModel model;
  model.config.experts = 3, model.config.experts_used = 2;
  model.write(folder / "base.gguf");
  const Gguf base = Gguf::open(folder / "base.gguf");
  SmallAdapter lora;
  lora.tensors = {{"blk.0.ffn_up_exps.weight.lora_a", {64, 4, 3}}, {"blk.0.ffn_up_exps.weight.lora_b", {4, 96, 3}}};
  lora.write(folder / "lora.gguf");
  const LoraFile file = LoraFile::open(folder / "lora.gguf", base);
  const std::string message = message_of([&] { adapter_from_file("a", 1, file, config_from_gguf(base)); });
  EXPECT_THAT(message, HasSubstr("lora.gguf: blk.0.ffn_up_exps.weight.lora_a"));
  EXPECT_THAT(message, HasSubstr("vitro merge"));
}

// Its matrices are computed as the file has them, without packing.
TEST(LoraAdapter, damaged_rows_are_refused) {
  const ScratchFolder folder;
  SmallModel().write(folder / "base.gguf");
  SmallAdapter lora;
  lora.tensors[2].format = Format::w4_outliers;
  lora.write(folder / "lora.gguf");
  const Gguf base = Gguf::open(folder / "base.gguf");
  const auto load = [&] { adapter_from_file("a", 1, LoraFile::open(folder / "lora.gguf", base), config_from_gguf(base)); };
  EXPECT_EQ(message_of(load), "");
  const TensorInfo a = *Gguf::open(folder / "lora.gguf").find_tensor("blk.1.ffn_down.weight.lora_a");
  std::string bytes = read_file(folder / "lora.gguf");
  bytes[a.offset + a.size / 4 + OutlierRow{96}.positions() + 1] = '\x7f';
  write_file(folder / "lora.gguf", bytes);
  EXPECT_THAT(message_of(load), HasSubstr("lora.gguf: blk.1.ffn_down.weight.lora_a: damaged: row 1: outlier 0 is at column 32"));
}

TEST(LoraAdapter, what_adapts_gate_and_up_as_one_is_two_that_share_a) {
  ModelConfig config = SmallModel().config;
  config.joined_gate_up = true;
  const LoraAdapter joined = phantom_adapter("joined", 1, {4, 8, {Role::ffn_gate_up, Role::ffn_down}, Format::f16}, config);
  const LoraAdapter halves = joined.with_halves();
  EXPECT_EQ(halves.matrices.size(), 3 * config.layers);
  EXPECT_EQ(halves.find(Role::ffn_gate_up, 1), nullptr);
  EXPECT_EQ(halves.find(Role::ffn_down, 1)->b.extent.offset, joined.find(Role::ffn_down, 1)->b.extent.offset);
  EXPECT_EQ(halves.extent().length, joined.extent().length);
  const LoraMatrices &whole = *joined.find(Role::ffn_gate_up, 1), &gate = *halves.find(Role::ffn_gate, 1),
                     &up = *halves.find(Role::ffn_up, 1);
  for (const LoraMatrices* half : {&gate, &up}) {
    EXPECT_EQ(half->scale, whole.scale);
    EXPECT_EQ(half->a.extent.offset, whole.a.extent.offset);
    EXPECT_EQ(half->b.rows, config.ffn);
    EXPECT_EQ(half->b.extent.length, Bytes{2} * config.ffn * 4);
  }
  EXPECT_EQ(gate.b.role, Role::ffn_gate);
  EXPECT_EQ(up.b.role, Role::ffn_up);
  EXPECT_EQ(gate.b.extent.offset, whole.b.extent.offset);
  EXPECT_EQ(up.b.extent.offset, whole.b.extent.offset + gate.b.extent.length) << "Gate's rows come first";
}

TEST(LoraAdapter, of_shapes_alone_has_every_layers_matrices_side_by_side) {
  const ModelConfig config = SmallModel().config;
  const LoraAdapter adapter = phantom_adapter("p", 1, {8, 16, {Role::attn_q, Role::ffn_down}, Format::f16}, config);
  EXPECT_EQ(adapter.matrices.size(), 4u);
  EXPECT_EQ(adapter.find(Role::ffn_down, 1)->scale, 2);
  EXPECT_EQ(adapter.extent().length, 2u * 2 * 8 * (64 + 64 + 96 + 64)) << "binary16, rank 8, two layers";
  EXPECT_THAT(message_of([&] { phantom_adapter("p", 1, {8, 0, {Role::attn_norm}, Format::f16}, config); }), HasSubstr("no attn_norm"));
}

}  // namespace
}  // namespace vitro
