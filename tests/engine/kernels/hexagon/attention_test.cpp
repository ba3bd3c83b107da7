// FlashAttention on HVX and HMX: the worker's code against the oracle to the bit, the qfloat form within its bound.
#include <cmath>
#include <memory>

#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/qfloat_model.hpp"
#include "engine/kernels/lut/flash_attention.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"
#include "tests/engine/kernels/lut/attention_case.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::QfloatModel;
using hexagon::QfloatRounding;
using lut::AttentionCase;
using lut::Halves;

const Halves& table() {
  static const Halves table = lut::exp2_table();
  return table;
}

// Q with log2 e / sqrt(dim) folded in, as the oracle does it.
Halves scaled_queries(const AttentionCase& c) {
  Halves out;
  const float base2 = c.scale * static_cast<float>(std::log2(std::exp(1.0)));
  for (const std::uint16_t q : c.q) out.push_back(float_to_half(half_to_float(q) * base2));
  return out;
}

Halves on_the_worker(HexagonWorker& worker, const AttentionCase& c) {
  Halves kv = c.k;
  kv.insert(kv.end(), c.v.begin(), c.v.end());
  const auto [queries, keys, dim, query_tile, key_tile] = c.shape;
  hexagon::Operator op =
      hexagon_op(Kind::attention, static_cast<std::uint32_t>(keys), static_cast<std::uint32_t>(dim), static_cast<std::uint32_t>(queries));
  op.bits = static_cast<std::uint32_t>(key_tile / hexagon::kTile);
  op.pitch = op.rows;
  return worker.in(0, scaled_queries(c)).in(1, kv).in(2, table()).run<std::uint16_t>(op, c.q.size());
}

TEST(HexagonAttention, has_the_bits_of_the_oracle) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(1);
  for (const lut::AttentionShape shape :
       {lut::AttentionShape{1, 1, 32, 32, 32}, {1, 200, 64, 32, 32}, {7, 33, 64, 32, 64}, {32, 130, 32, 32, 128}, {3, 70, 128, 32, 256}}) {
    for (const double spread : {1.0, 12.0}) {
      const AttentionCase c = lut::draw_case(rng, shape, spread);
      const Halves expected = lut::flash_attention(c.shape, c.q, c.k, c.v, c.scale, table());
      ASSERT_EQ(on_the_worker(worker, c), expected) << shape.queries << " x " << shape.keys << " x " << shape.dim << ", " << spread;
    }
  }
}

TEST(HexagonAttention, impossible_shapes_are_refused) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  hexagon::Operator good = hexagon_op(Kind::attention, 8, 64, 2);
  good.bits = 1;
  good.pitch = 8;
  good.out_bytes = 2 * 64 * 2;
  for (int i = 0; i < 3; ++i) good.in[i] = hexagon::kArenaStart;
  EXPECT_TRUE(worker.session().run({good}).ok());
  const auto refused = [&](auto change) {
    hexagon::Operator bad = good;
    change(bad);
    return worker.session().run({bad}).status().code == Code::unsupported_shape;
  };
  EXPECT_TRUE(refused([](auto& op) {
    op.batch = 33;
    op.out_bytes = 33 * 128;
  }));
  EXPECT_TRUE(refused([](auto& op) {
    op.columns = 48;
    op.out_bytes = 2 * 96;
  }));
  EXPECT_TRUE(refused([](auto& op) {
    op.columns = 288;
    op.out_bytes = 2 * 576;
  }));
  EXPECT_TRUE(refused([](auto& op) { op.bits = 0; }));
  EXPECT_TRUE(refused([](auto& op) { op.bits = 9; }));
  EXPECT_TRUE(refused([](auto& op) { op.rows = 0; }));
  EXPECT_TRUE(refused([](auto& op) { op.rows = 9; }));
  EXPECT_TRUE(refused([](auto& op) { op.rows = op.pitch = 0x40000000; }));
}

TEST(HexagonAttention, reciprocals_are_rounded_once) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_EQ(hexagon::reciprocal(half), 1.0f / half_to_float(half)) << bits;
  }
}

template <class I>
class AttentionStages : public testing::Test {
 protected:
  static constexpr bool kNearest = std::is_same_v<I, QfloatModel<QfloatRounding::nearest>>;
  static typename I::Vector vector_of(const std::uint16_t* halves) {
    typename I::Vector v;
    std::memcpy(v.byte, halves, sizeof v.byte);
    return v;
  }
};
using Models = testing::Types<QfloatModel<QfloatRounding::nearest>, QfloatModel<QfloatRounding::down>>;
TYPED_TEST_SUITE(AttentionStages, Models);

// What the oracle's bound says with twice its step: qfloat may round downwards.
TYPED_TEST(AttentionStages, is_attention_within_its_bound) {
  using I = TypeParam;
  Rng rng(2);
  for (const lut::AttentionShape shape : {lut::AttentionShape{1, 1, 32, 32, 32}, {1, 200, 64, 32, 64}, {32, 129, 32, 32, 128}}) {
    const AttentionCase c = lut::draw_case(rng, shape);
    const auto scratch = std::make_unique<hexagon::AttentionScratch<typename I::Vector>>();
    hexagon::HmxModel hmx;
    Halves out(c.q.size());
    const hexagon::AttentionShape job{static_cast<std::uint32_t>(shape.queries), static_cast<std::uint32_t>(shape.keys),
                                      static_cast<std::uint32_t>(shape.dim / 32), static_cast<std::uint32_t>(shape.key_tile / 32)};
    hexagon::attend<I>(job, scaled_queries(c).data(), c.k.data(), c.v.data(), table().data(), *scratch, hmx, out.data());
    const lut::Exact e = lut::exact(c, 0x1p-10);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(half_to_float(out[i]), e.out[i], e.bound[i]) << i;
  }
}

// The ablations compute 2^x, too. Bounds: of the Taylor remainder at the largest |f| that the rounding of k leaves (1/2, or 1 when it is
// always downwards), of Horner's steps, and of the flush below 2^-14.
TYPED_TEST(AttentionStages, the_polynomials_are_powers_of_two) {
  using I = TypeParam;
  const auto remainder = [](int degree, double f) {
    return std::pow(f * std::log(2.0), degree + 1) / std::tgamma(degree + 2) * std::exp2(f);
  };
  const double f = this->kNearest ? 0.5 : 1, u16 = this->kNearest ? 0x1p-11 : 0x1p-10, u32 = this->kNearest ? 0x1p-24 : 0x1p-23;
  Halves x;
  for (std::uint32_t bits = 0x8000; bits < 0xfc00; bits += 5) x.push_back(static_cast<std::uint16_t>(bits));
  x.resize(x.size() / 64 * 64);
  for (std::size_t i = 0; i < x.size(); i += 64) {
    typename I::Vector half, single;
    hexagon::ExpByHalf::exp<I>(this->vector_of(&x[i]), nullptr, &half);
    hexagon::ExpByFloat::exp<I>(this->vector_of(&x[i]), nullptr, &single);
    for (std::size_t j = 0; j < 64; ++j) {
      const double value = static_cast<double>(half_to_float(x[i + j])), exact = std::exp2(value);
      // Terms: 5 coefficients rounded, 4 products and 4 sums of values up to 2; the last rounding to fp16.
      ASSERT_NEAR(I::hf(half, j), value >= -14 ? exact : 0, exact * (2 * remainder(4, f) + 14 * u16)) << value;
      ASSERT_NEAR(I::hf(single, j), value >= -25 ? exact : 0, exact * (2 * remainder(6, f) + 20 * u32 + u16) + 0x1p-24) << value;
    }
  }
}

}  // namespace
}  // namespace vitro::test
