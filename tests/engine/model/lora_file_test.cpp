#include "engine/model/lora_file.hpp"

#include <gmock/gmock.h>

#include "tests/engine/model/lora_support.hpp"

namespace vitro {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LoraFileTest : public testing::Test {
 protected:
  LoraFileTest() { SmallModel().write(folder_ / "base.gguf"); }

  std::string refusal(const SmallAdapter& adapter) const {
    adapter.write(folder_ / "lora.gguf");
    return message_of([&] { LoraFile::open(folder_ / "lora.gguf", Gguf::open(folder_ / "base.gguf")); });
  }

  ScratchFolder folder_;
};

TEST_F(LoraFileTest, pairs_have_their_matrices_rank_and_scale) {
  SmallAdapter().write(folder_ / "lora.gguf");
  const LoraFile file = LoraFile::open(folder_ / "lora.gguf", Gguf::open(folder_ / "base.gguf"));
  ASSERT_EQ(file.pairs().size(), 2u);
  EXPECT_EQ(file.pairs()[0].target, "blk.0.attn_q.weight");
  EXPECT_EQ(file.pairs()[1].target, "blk.1.ffn_down.weight");
  EXPECT_EQ(file.pairs()[1].a->columns(), 96u);
  EXPECT_EQ(file.pairs()[1].b->format, Format::f16);
  EXPECT_EQ(file.pairs()[0].rank(), 4u);
  EXPECT_FLOAT_EQ(file.scale(file.pairs()[0], 1), 2) << "alpha 8 over rank 4";
  EXPECT_FLOAT_EQ(file.scale(file.pairs()[0], 0.25), 0.5);
}

TEST_F(LoraFileTest, without_alpha_the_strength_is_the_scale) {
  SmallAdapter adapter;
  adapter.set("adapter.lora.alpha", 0.0f);
  adapter.write(folder_ / "lora.gguf");
  const LoraFile file = LoraFile::open(folder_ / "lora.gguf", Gguf::open(folder_ / "base.gguf"));
  EXPECT_FLOAT_EQ(file.scale(file.pairs()[0], 0.75), 0.75);
}

TEST_F(LoraFileTest, what_is_no_adapter_of_this_base_is_refused_with_file_and_key) {
  const auto with = [](const std::string& key, GgufValue value) {
    SmallAdapter adapter;
    adapter.set(key, std::move(value));
    return adapter;
  };
  EXPECT_THAT(refusal(with("general.type", std::string("model"))), AllOf(HasSubstr("lora.gguf: general.type"), HasSubstr("\"adapter\"")));
  EXPECT_THAT(refusal(with("adapter.type", std::string("control_vector"))), HasSubstr("lora.gguf: adapter.type"));
  EXPECT_THAT(refusal(with("general.architecture", std::string("qwen2"))),
              AllOf(HasSubstr("lora.gguf: general.architecture"), HasSubstr("base.gguf")));
  EXPECT_THAT(refusal(with("adapter.lora.alpha", -1.0f)), HasSubstr("lora.gguf: adapter.lora.alpha"));
  EXPECT_THAT(refusal(with("adapter.lora.alpha", std::nanf(""))), HasSubstr("lora.gguf: adapter.lora.alpha"));
  EXPECT_THAT(refusal(with("adapter.alora.invocation_tokens", 1u)), HasSubstr("activated LoRA"));
  SmallAdapter empty;
  empty.tensors.clear();
  EXPECT_THAT(refusal(empty), AllOf(HasSubstr("lora.gguf"), HasSubstr("has no tensors")));
}

TEST_F(LoraFileTest, the_name_of_another_base_raises_a_doubt) {
  const Gguf base = Gguf::open(folder_ / "base.gguf");  // "small"
  const auto doubt = [&](const std::string& name) {
    SmallAdapter adapter;
    if (!name.empty()) adapter.set("general.base_model.0.name", name);
    adapter.write(folder_ / "lora.gguf");
    return LoraFile::open(folder_ / "lora.gguf", base).doubt(base);
  };
  for (const char* same : {"", "small", "SMALL", "S-mall", "Meta small 3.1"}) EXPECT_EQ(doubt(same), "") << same;
  EXPECT_THAT(doubt("Large 7B"), AllOf(HasSubstr("lora.gguf was made for \"Large 7B\""), HasSubstr("base.gguf is \"small\"")));
}

TEST_F(LoraFileTest, tensors_that_do_not_fit_are_refused_with_file_and_tensor) {
  const auto changed = [](std::size_t index, AdapterTensor tensor) {
    SmallAdapter adapter;
    adapter.tensors[index] = std::move(tensor);
    return adapter;
  };
  EXPECT_THAT(refusal(changed(0, {"blk.0.attn_q.weight.lora_a", {32, 4}})),
              AllOf(HasSubstr("lora.gguf: blk.0.attn_q.weight.lora_a: has the shape [32, 4]"), HasSubstr("expected rows of 64 elements")));
  EXPECT_THAT(refusal(changed(1, {"blk.0.attn_q.weight.lora_b", {4, 65}})), HasSubstr("lora_b: has the shape [4, 65]"));
  EXPECT_THAT(refusal(changed(1, {"blk.0.attn_q.weight.lora_b", {5, 64}})),
              AllOf(HasSubstr("lora_a: has 4 rows"), HasSubstr("rows of 5 elements (expected one rank)")));
  EXPECT_THAT(refusal(changed(0, {"blk.0.attn_q.weight.lora_a", {64}})), HasSubstr("lora_a: has the shape [64]"));
  EXPECT_THAT(refusal(changed(0, {"blk.0.attn_q.weight", {64, 4}})), HasSubstr("blk.0.attn_q.weight: is no part of a LoRA"));
  EXPECT_THAT(refusal(changed(1, {"blk.0.attn_k.weight.lora_b", {4, 32}})), HasSubstr("lora_a: has no blk.0.attn_q.weight.lora_b"));
  SmallAdapter other;
  other.tensors = {{"blk.7.attn_q.weight.lora_a", {64, 4}}, {"blk.7.attn_q.weight.lora_b", {4, 64}}};
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("lora.gguf: blk.7.attn_q.weight.lora_a"), HasSubstr("has no tensor blk.7.attn_q.weight")));
  other.tensors = {{"blk.0.attn_norm.weight.lora_a", {64, 4}}, {"blk.0.attn_norm.weight.lora_b", {4, 64}}};
  EXPECT_THAT(refusal(other), HasSubstr("expected an adapter of a matrix"));
  other.tensors = {{"token_embd.weight.lora_a", {64, 4}}, {"token_embd.weight.lora_b", {4, 48}}};
  EXPECT_THAT(refusal(other), HasSubstr("adapts the embedding"));
}

// The header of a good file with the dimension of one tensor changed: GgufWriter would not write it.
TEST_F(LoraFileTest, a_rank_of_zero_is_refused_with_file_and_tensor) {
  SmallAdapter().write(folder_ / "lora.gguf");
  std::string bytes = read_file(folder_ / "lora.gguf");
  const std::string name = "blk.0.attn_q.weight.lora_a";
  const std::size_t rank = bytes.find(name) + name.size() + sizeof(std::uint32_t) + sizeof(std::uint64_t);
  ASSERT_EQ(bytes[rank], 4);
  bytes[rank] = 0;
  write_file(folder_ / "lora.gguf", bytes);
  EXPECT_THAT(message_of([&] { LoraFile::open(folder_ / "lora.gguf", Gguf::open(folder_ / "base.gguf")); }),
              AllOf(HasSubstr("lora.gguf"), HasSubstr(name), HasSubstr("a dimension is zero")));
}

// Of a damaged file either nothing is read or what is left fits: no crash, no other exception.
TEST_F(LoraFileTest, a_file_that_ends_early_is_refused_at_every_byte) {
  SmallAdapter().write(folder_ / "whole.gguf");
  const std::string bytes = read_file(folder_ / "whole.gguf");
  const Gguf base = Gguf::open(folder_ / "base.gguf");
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 64) {
    write_file(folder_ / "lora.gguf", std::string_view(bytes).substr(0, length));
    EXPECT_NE(message_of([&] { LoraFile::open(folder_ / "lora.gguf", base); }), "") << length;
  }
}

}  // namespace
}  // namespace vitro
