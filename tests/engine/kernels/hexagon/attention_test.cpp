// FlashAttention on HVX and HMX: the worker's code against the oracle to the bit, the qfloat form within its bound.
#include <cmath>
#include <memory>

#include "engine/host/hexagon_stages.hpp"
#include "engine/kernels/hexagon/attention_layout.hpp"
#include "engine/kernels/hexagon/qfloat_model.hpp"
#include "engine/kernels/fp16_attention/flash_attention.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "tests/engine/kernels/hexagon/serial_attention.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"
#include "tests/engine/kernels/fp16_attention/attention_case.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using hexagon::QfloatModel;
using hexagon::QfloatRounding;
using fp16_attention::AttentionCase;
using fp16_attention::Halves;

std::span<const std::uint16_t> table() { return lut::powers_of_two(Exponential::table); }

// Q with log2 e / sqrt(dim) folded in, as the oracle does it.
Halves scaled_queries(const AttentionCase& c) {
  Halves out;
  const float base2 = c.scale * static_cast<float>(std::log2(std::exp(1.0)));
  for (const std::uint16_t q : c.q) out.push_back(float_to_half(half_to_float(q) * base2));
  return out;
}

// Heads of keys and values with their queries, each of which sees the first `seen` keys.
struct Heads {
  std::vector<AttentionCase> cases;
  std::vector<std::uint32_t> seen;
};

Heads draw_heads(Rng& rng, std::size_t heads, std::size_t queries, std::size_t keys, std::size_t dim, double spread) {
  Heads drawn;
  for (std::size_t h = 0; h < heads; ++h) {
    drawn.cases.push_back(fp16_attention::draw_case(rng, {queries, keys, dim, hexagon::kTile, hexagon::kKeyBlock}, spread));
  }
  for (std::size_t q = 0; q < queries; ++q) drawn.seen.push_back(1 + static_cast<std::uint32_t>(rng.below(keys)));
  drawn.seen[rng.below(queries)] = static_cast<std::uint32_t>(keys);
  return drawn;
}

Halves by_the_oracle(const Heads& heads, Exponential exponential = Exponential::table) {
  Halves all;
  for (const AttentionCase& c : heads.cases) {
    for (std::size_t q = 0; q < c.shape.queries; ++q) {
      fp16_attention::AttentionShape one = c.shape;
      one.queries = 1;
      one.keys = heads.seen[q];
      const std::size_t dim = one.dim, size = one.keys * dim;
      const Halves out =
          fp16_attention::flash_attention(one, std::span(c.q).subspan(q * dim, dim), std::span(c.k).first(size),
                                          std::span(c.v).first(size), c.scale, lut::powers_of_two(exponential));
      all.insert(all.end(), out.begin(), out.end());
    }
  }
  return all;
}

hexagon::Operator attention_operator(const Heads& heads, const hexagon::StageOptions& options,
                                     Exponential exponential = Exponential::table) {
  const fp16_attention::AttentionShape& shape = heads.cases[0].shape;
  const auto columns = hexagon::attention_columns(static_cast<std::uint32_t>(shape.dim));
  hexagon::Operator op = hexagon_op(Kind::attention, static_cast<std::uint32_t>(shape.keys), columns,
                                    static_cast<std::uint32_t>(shape.queries));
  op.bits = static_cast<std::uint32_t>(heads.cases.size());
  op.pitch = static_cast<std::uint32_t>(round_up(shape.keys, hexagon::kTile));
  op.exponential = exponential;
  op.fewest = *std::ranges::min_element(heads.seen);
  op.stages = hexagon::plan_attention(hexagon::attention_pass(op), options.buffers, options.threads);
  return op;
}

Halves attend_on_the_worker(HexagonWorker& worker, const Heads& heads, const hexagon::Operator& op) {
  const hexagon::AttentionPass pass = hexagon::attention_pass(op);
  const std::size_t dim = heads.cases[0].shape.dim;
  Halves queries(hexagon::query_bytes(op) / 2), kv(std::size_t{op.bits} * 2 * op.pitch * op.columns);
  for (std::size_t h = 0; h < heads.cases.size(); ++h) {
    const AttentionCase& c = heads.cases[h];
    const Halves q = scaled_queries(c);
    for (std::uint32_t i = 0; i < op.batch; ++i) {
      for (std::uint32_t d = 0; d < dim; ++d) {
        const std::size_t tile = (h * pass.tiles() + i / 32) * pass.depth() + d / 32;
        queries[tile * hexagon::kTileElements + hexagon::tile_place(i % 32, d % 32)] = q[i * dim + d];
      }
    }
    for (std::size_t which = 0; which < 2; ++which) {
      const Halves& from = which == 0 ? c.k : c.v;
      for (std::size_t key = 0; key < op.rows; ++key) {
        for (std::size_t d = 0; d < dim; ++d) kv[((2 * h + which) * op.pitch + key) * op.columns + d] = from[key * dim + d];
      }
    }
  }
  for (const std::uint32_t seen : heads.seen) {
    queries.push_back(static_cast<std::uint16_t>(seen));
    queries.push_back(static_cast<std::uint16_t>(seen >> 16));
  }
  queries.resize((hexagon::query_bytes(op) + hexagon::seen_bytes(op)) / 2);
  worker.in(0, queries).in(1, kv);
  if (op.exponential == Exponential::table) worker.in(2, Halves(table().begin(), table().end()));
  const Halves wide = worker.run<std::uint16_t>(op, std::size_t{op.bits} * op.batch * op.columns);
  Halves out;
  for (std::size_t row = 0; row < wide.size(); row += op.columns) {
    out.insert(out.end(), wide.begin() + static_cast<std::ptrdiff_t>(row), wide.begin() + static_cast<std::ptrdiff_t>(row + dim));
  }
  return out;
}

// Heads, queries of each (with padding, in several tiles), keys (of less than a tile, of several blocks), and a head's columns.
TEST(HexagonAttention, has_the_bits_of_the_oracle) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(1);
  constexpr std::size_t kShapes[][4] = {{1, 1, 1, 32},   {2, 3, 200, 64},   {3, 7, 33, 64},
                                          {1, 70, 300, 32}, {2, 32, 128, 128}, {5, 2, 20, 96}};
  std::uint32_t turn = 0;
  for (const auto& [heads, queries, keys, dim] : kShapes) {
    for (const double spread : {1.0, 12.0}) {
      const Heads drawn = draw_heads(rng, heads, queries, keys, dim, spread);
      const Halves expected = by_the_oracle(drawn);
      for (std::uint32_t i = 0; i < 3; ++i, ++turn) {
        const hexagon::StageOptions options{.buffers = turn % 3, .threads = 1u << (turn / 3 + turn) % 3};
        ASSERT_EQ(attend_on_the_worker(worker, drawn, attention_operator(drawn, options)), expected)
            << heads << " x " << queries << " x " << keys << " x " << dim << ", " << spread << ", " << options.buffers << " buffers, "
            << options.threads << " threads";
      }
    }
  }
}

// Polynomials are computed where the oracle looks their values up: no table is given to the worker, and none has room in TCM.
TEST(HexagonAttention, has_the_bits_of_the_oracle_by_polynomials) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(3);
  for (const Exponential exponential : {Exponential::f16, Exponential::f32}) {
    for (const double spread : {1.0, 12.0}) {
      const Heads drawn = draw_heads(rng, 2, 5, 170, 64, spread);
      const Halves expected = by_the_oracle(drawn, exponential);
      if (exponential == Exponential::f16) {
        EXPECT_NE(expected, by_the_oracle(drawn)) << spread;
      }
      for (const std::uint32_t buffers : {0u, 1u, 2u}) {
        const hexagon::Operator op = attention_operator(drawn, {.buffers = buffers, .threads = 2}, exponential);
        EXPECT_EQ(hexagon::place_attention(op).queries, 0u);
        ASSERT_EQ(attend_on_the_worker(worker, drawn, op), expected) << spread << ", " << buffers << " buffers";
      }
    }
  }
}

// What the plan says happens: with two buffers the next block is on its way, and the matrix unit may be at work, while HVX computes.
TEST(HexagonAttention, stages_overlap_with_two_buffers_alone) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(2);
  const Heads drawn = draw_heads(rng, 2, 4, 500, 64, 1);
  for (const std::uint32_t buffers : {0u, 1u, 2u}) {
    const hexagon::Operator op = attention_operator(drawn, {.buffers = buffers});
    attend_on_the_worker(worker, drawn, op);
    const hexagon::StageOverlap overlap = hexagon::overlap_of(op, 0, worker.session().log());
    EXPECT_EQ(overlap.steps, op.stages.groups);
    EXPECT_EQ(op.stages.groups, 2 * 4 + 2 * hexagon::groups_ahead(buffers));
    if (buffers == 2) {
      EXPECT_EQ(overlap.transfers_ahead, overlap.steps - 1);
    } else {
      EXPECT_EQ(overlap.transfers_ahead, 0u) << buffers;
      EXPECT_EQ(overlap.vectors_with_matrix, 0u) << buffers;
    }
  }
}

// Packets of masks and reciprocals are those of the plan's counts (AttentionPass::masked(), sums()), whatever the shape.
TEST(HexagonAttention, masks_and_reciprocals_are_as_many_as_the_plan_has) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  Rng rng(4);
  const auto packets_of = [&](std::string_view function) {
    std::uint64_t packets = 0;
    for (const PacketCount& count : worker.session().transport().packets()) packets += count.function == function ? count.packets : 0;
    return packets;
  };
  struct Shape {
    std::size_t heads, queries, keys;
    std::uint32_t fewest;
  };
  // The first has no masks; in the others the same number of pairs in a loop, so that a call costs each score the same.
  double masks = 0, reciprocals = 0;
  for (const Shape& s : {Shape{2, 32, 128, 128}, Shape{1, 32, 300, 300}, Shape{2, 32, 300, 70}, Shape{3, 64, 129, 1}}) {
    Heads drawn = draw_heads(rng, s.heads, s.queries, s.keys, 64, 1);
    for (std::uint32_t& seen : drawn.seen) seen = std::max(seen, s.fewest);
    drawn.seen[1] = s.fewest;
    const hexagon::Operator op = attention_operator(drawn, {.threads = 1});
    ASSERT_EQ(op.fewest, s.fewest);
    const std::uint64_t masks_before = packets_of("hvx_mask_scores"), before = packets_of("hvx_reciprocals");
    ASSERT_EQ(attend_on_the_worker(worker, drawn, op), by_the_oracle(drawn));
    const auto each = [](std::uint64_t packets, std::uint64_t things) {
      return static_cast<double>(packets) / static_cast<double>(things);
    };
    const hexagon::AttentionPass pass = hexagon::attention_pass(op);
    const std::uint64_t masked = packets_of("hvx_mask_scores") - masks_before, divided = packets_of("hvx_reciprocals") - before;
    if (pass.masked() == 0) {
      EXPECT_EQ(masked, 0u);
    } else if (masks == 0) {
      masks = each(masked, pass.masked());
      EXPECT_GT(masks, 0);
    } else {
      EXPECT_DOUBLE_EQ(each(masked, pass.masked()), masks) << s.queries << " queries, " << s.keys << " keys";
    }
    if (reciprocals == 0) reciprocals = each(divided, pass.sums());
    EXPECT_GT(divided, 0u);
    EXPECT_NEAR(each(divided, pass.sums()) / reciprocals, 1, 0.1) << "a call has up to 32 pairs";
  }
}

TEST(HexagonAttention, impossible_shapes_are_refused) {
  VITRO_NEEDS_HEXAGON();
  HexagonWorker worker;
  hexagon::Operator good = hexagon_op(Kind::attention, 8, 64, 2);
  good.bits = 1;
  good.pitch = 32;
  for (int i = 0; i < 3; ++i) good.in[i] = hexagon::kArenaStart;
  const auto planned = [](hexagon::Operator op) {
    op.stages = hexagon::plan_attention(hexagon::attention_pass(op), 2, 4);
    op.out_bytes = static_cast<std::uint32_t>(hexagon::attention_bytes(op));
    return op;
  };
  EXPECT_TRUE(worker.session().run({planned(good)}).ok());
  const auto refused = [&](auto change) {
    hexagon::Operator bad = planned(good);
    change(bad);
    return worker.session().run({bad}).status().code == Code::unsupported_shape;
  };
  const auto shape_refused = [&](auto change) {
    return refused([&](auto& op) {
      change(op);
      op = planned(op);
    });
  };
  EXPECT_TRUE(shape_refused([](auto& op) { op.batch = hexagon::kMostQueries + 1; }));
  EXPECT_TRUE(shape_refused([](auto& op) { op.columns = 96; }));
  EXPECT_TRUE(shape_refused([](auto& op) { op.columns = 320; }));
  EXPECT_TRUE(shape_refused([](auto& op) { op.rows = 33; }));
  EXPECT_TRUE(shape_refused([](auto& op) { op.pitch = 33; }));
  EXPECT_TRUE(shape_refused([](auto& op) { op.bits = 0; }));
  EXPECT_TRUE(shape_refused([](auto& op) { op.rows = op.pitch = 0x40000000; }));
  EXPECT_TRUE(refused([](auto& op) { op.rows = 0; }));
  EXPECT_TRUE(refused([](auto& op) { op.fewest = op.rows + 1; }));
  EXPECT_TRUE(refused([](auto& op) { op.batch = 0; }));
  EXPECT_TRUE(refused([](auto& op) { op.exponential = static_cast<Exponential>(3); }));
  EXPECT_TRUE(refused([](auto& op) { ++op.stages.groups; }));
  EXPECT_TRUE(refused([](auto& op) { op.stages.threads = 3; }));
  EXPECT_TRUE(refused([](auto& op) { op.stages.buffers = 3; }));
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
  using fp16_attention::AttentionShape;
  for (const AttentionShape shape : {AttentionShape{1, 1, 32, 32, 32}, {1, 200, 64, 32, 64}, {32, 129, 32, 32, 128}}) {
    const AttentionCase c = fp16_attention::draw_case(rng, shape);
    const auto scratch = std::make_unique<hexagon::AttentionScratch<typename I::Vector>>();
    hexagon::HmxModel hmx;
    Halves out(c.q.size());
    const hexagon::AttentionShape job{static_cast<std::uint32_t>(shape.queries), static_cast<std::uint32_t>(shape.keys),
                                      static_cast<std::uint32_t>(shape.dim / 32), static_cast<std::uint32_t>(shape.key_tile / 32)};
    hexagon::attend<I>(job, scaled_queries(c).data(), c.k.data(), c.v.data(), table().data(), *scratch, hmx, out.data());
    const fp16_attention::Exact e = fp16_attention::exact(c, 0x1p-10);
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
