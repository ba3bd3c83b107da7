#include "engine/model/lora_merge.hpp"

#include <gmock/gmock.h>

#include "engine/model/model_config.hpp"
#include "tests/engine/model/lora_support.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

class LoraMergeTest : public testing::Test {
 protected:
  std::string base() const { return folder_ / "base.gguf"; }
  std::string adapter() const { return folder_ / "lora.gguf"; }
  std::string out() const { return folder_ / "merged.gguf"; }
  void write(Format matrices) const {
    SmallModel model;
    model.matrices = matrices;
    model.write(base());
    SmallAdapter().write(adapter());
  }

  ScratchFolder folder_;
};

// W + scale B A by hand, in double.
std::vector<double> expected(const Gguf& base, const Gguf& lora, const std::string& name, double scale) {
  const std::vector<float> w = floats_of(base, name), a = floats_of(lora, name + ".lora_a"), b = floats_of(lora, name + ".lora_b");
  const std::size_t columns = base.find_tensor(name)->columns(), rank = lora.find_tensor(name + ".lora_b")->columns();
  std::vector<double> merged(w.begin(), w.end());
  for (std::size_t i = 0; i < merged.size(); ++i) {
    for (std::size_t r = 0; r < rank; ++r) merged[i] += scale * b[i / columns * rank + r] * a[r * columns + i % columns];
  }
  return merged;
}

TEST_F(LoraMergeTest, floats_are_the_sum_and_all_else_is_copied) {
  write(Format::f32);
  merge_lora({base(), adapter(), out(), 0.5, {}});
  const Gguf in = Gguf::open(base()), lora = Gguf::open(adapter()), merged = Gguf::open(out());
  ASSERT_EQ(merged.tensors().size(), in.tensors().size());
  EXPECT_EQ(merged.values().size(), in.values().size());
  std::size_t changed = 0;
  for (const TensorInfo& tensor : in.tensors()) {
    const std::vector<float> got = floats_of(merged, tensor.name);
    if (lora.find_tensor(tensor.name + ".lora_a") == nullptr) {
      EXPECT_EQ(got, floats_of(in, tensor.name)) << tensor.name;
      continue;
    }
    ++changed;
    EXPECT_NE(got, floats_of(in, tensor.name));
    const std::vector<double> want = expected(in, lora, tensor.name, 0.5 * 8 / 4);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], static_cast<float>(want[i])) << tensor.name << " " << i;
  }
  EXPECT_EQ(changed, 2u);
  EXPECT_NO_THROW(config_from_gguf(merged));
}

// A quantised matrix is off by the rounding of its own format: half a step of a block's scale.
TEST_F(LoraMergeTest, quantised_matrices_keep_their_format_within_half_a_step) {
  write(Format::q8_0);
  merge_lora({base(), adapter(), out(), 1, {}});
  const Gguf in = Gguf::open(base()), lora = Gguf::open(adapter()), merged = Gguf::open(out());
  for (const std::string name : {"blk.0.attn_q.weight", "blk.1.ffn_down.weight"}) {
    EXPECT_EQ(merged.find_tensor(name)->format, Format::q8_0);
    const std::vector<double> want = expected(in, lora, name, 2);
    const std::vector<float> got = floats_of(merged, name);
    for (std::size_t block = 0; block < want.size(); block += kBlock) {
      double most = 0;
      for (std::size_t i = 0; i < kBlock; ++i) most = std::max(most, std::abs(want[block + i]));
      // The scale itself is rounded to binary16, which moves a quant of 127 by 127 * 2^-11 steps.
      const double step = most / 127;
      for (std::size_t i = 0; i < kBlock; ++i) ASSERT_NEAR(got[block + i], want[block + i], (0.5 + 127 * 0x1p-11) * step) << name;
    }
  }
}

TEST_F(LoraMergeTest, another_format_can_be_asked_for) {
  write(Format::q8_0);
  merge_lora({base(), adapter(), out(), 1, Format::f16});
  const Gguf merged = Gguf::open(out());
  EXPECT_EQ(merged.find_tensor("blk.0.attn_q.weight")->format, Format::f16);
  EXPECT_EQ(merged.find_tensor("blk.1.attn_q.weight")->format, Format::q8_0) << "of what is not merged, nothing changes";
}

TEST_F(LoraMergeTest, experts_are_merged_one_by_one) {
  SmallModel model;
  model.config.experts = 3, model.config.experts_used = 2;
  model.matrices = Format::f32;
  model.write(base());
  SmallAdapter lora;
  const std::string name = "blk.0.ffn_up_exps.weight";
  lora.tensors = {{name + ".lora_a", {64, 4, 3}}, {name + ".lora_b", {4, 96, 3}}};
  lora.write(adapter());
  merge_lora({base(), adapter(), out(), 1, {}});
  const std::vector<float> w = floats_of(Gguf::open(base()), name), got = floats_of(Gguf::open(out()), name);
  const std::vector<float> a = floats_of(Gguf::open(adapter()), name + ".lora_a"), b = floats_of(Gguf::open(adapter()), name + ".lora_b");
  for (std::size_t row = 0; row < 3 * 96; ++row) {
    for (std::size_t k = 0; k < 64; ++k) {
      double sum = 0;
      for (std::size_t r = 0; r < 4; ++r) sum += double{b[row * 4 + r]} * double{a[(row / 96 * 4 + r) * 64 + k]};
      ASSERT_EQ(got[row * 64 + k], static_cast<float>(w[row * 64 + k] + 2 * sum)) << row << " " << k;
    }
  }
}

TEST_F(LoraMergeTest, what_can_not_be_merged_leaves_no_file) {
  write(Format::f32);
  SmallAdapter bad;
  bad.tensors[0].dims = {32, 4};
  bad.write(adapter());
  EXPECT_THAT(message_of([&] { merge_lora({base(), adapter(), out(), 1, {}}); }), HasSubstr("blk.0.attn_q.weight.lora_a"));
  SmallAdapter huge;
  huge.set("adapter.lora.alpha", 1e6f);
  huge.write(adapter());
  SmallModel model;
  model.matrices = Format::f16;
  model.write(base());
  EXPECT_THAT(message_of([&] { merge_lora({base(), adapter(), out(), 1e5, {}}); }), HasSubstr("which f16 can not hold"));
  EXPECT_THAT(message_of([&] { merge_lora({base(), adapter(), base(), 1, {}}); }), HasSubstr("one file"));
  EXPECT_THAT(message_of([&] { merge_lora({base(), adapter(), adapter(), 1, {}}); }), HasSubstr("one file"));
  EXPECT_EQ(folder_.files(), 2u);
}

TEST_F(LoraMergeTest, a_format_that_is_only_read_needs_another_one) {
  const std::string q6_k = embedded("stories-reglu-3m.q6_k.gguf");
  const Gguf model = Gguf::open(q6_k);
  const auto found =
      std::ranges::find_if(model.tensors(), [](const TensorInfo& t) { return t.format == Format::q6_k && t.name.starts_with("blk."); });
  ASSERT_NE(found, model.tensors().end());
  SmallAdapter lora;
  lora.tensors = {{found->name + ".lora_a", {found->dims[0], 2}}, {found->name + ".lora_b", {2, found->dims[1]}}};
  lora.write(adapter());
  EXPECT_THAT(message_of([&] { merge_lora({q6_k, adapter(), out(), 1, {}}); }), HasSubstr("expected --format"));
  EXPECT_NO_THROW(merge_lora({q6_k, adapter(), out(), 1, Format::q8_0}));
}

}  // namespace
}  // namespace vitro
