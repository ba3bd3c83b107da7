#include "engine/kernels/fp16_attention/flash_attention.hpp"

#include <gtest/gtest.h>

#include "engine/kernels/lut/lut_reference.hpp"
#include "tests/engine/kernels/fp16_attention/attention_case.hpp"

namespace vitro::fp16_attention {
namespace {

Halves attend(const AttentionCase& c, ExpBy by = ExpBy::table) {
  static const Halves table = lut::exp2_table();
  return flash_attention(c.shape, c.q, c.k, c.v, c.scale, table, by);
}

TEST(FlashAttention, is_attention_within_its_bound) {
  Rng rng(1);
  for (const AttentionShape shape : {AttentionShape{1, 1, 32}, {1, 200, 64}, {40, 33, 64}, {70, 129, 32}, {8, 300, 128, 4, 16}}) {
    const AttentionCase c = draw_case(rng, shape);
    const Halves out = attend(c);
    const Exact e = exact(c);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(half_to_float(out[i]), e.out[i], e.bound[i]) << i;
  }
}

TEST(FlashAttention, the_table_is_exp) {
  Rng rng(2);
  for (const double spread : {0.1, 1.0, 8.0}) {
    const AttentionCase c = draw_case(rng, {33, 100, 64}, spread);
    EXPECT_EQ(attend(c, ExpBy::table), attend(c, ExpBy::exact));
  }
}

TEST(FlashAttention, a_wrong_table_is_seen) {
  Rng rng(3);
  const AttentionCase c = draw_case(rng, {4, 64, 32});
  Halves table = lut::exp2_table();
  for (std::size_t i = 0x3800; i < 0x4400; ++i) table[i] = table[i / 2];
  const Halves out = flash_attention(c.shape, c.q, c.k, c.v, c.scale, table);
  const Exact e = exact(c);
  std::size_t off = 0;
  for (std::size_t i = 0; i < out.size(); ++i) off += std::abs(half_to_float(out[i]) - e.out[i]) > e.bound[i];
  EXPECT_GT(off, out.size() / 2);
}

TEST(FlashAttention, one_key_is_its_value) {
  Rng rng(4);
  const AttentionCase c = draw_case(rng, {5, 1, 16}, 20);
  const Halves out = attend(c);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], c.v[i % 16]);
}

}  // namespace
}  // namespace vitro::fp16_attention
