// Activations in float16: what a call gives is what it gives in float32, rounded as it is stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/cpu/halves.hpp"
#include "engine/quant/float16.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/bounds.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

Outcome execute(const KernelSet& set, const KernelCall& call) { return ComputeFunction({std::string(set.name)}).execute(call); }

TEST(Halves, every_operator_on_every_set_gives_the_float32_result_rounded_once) {
  Rng rng(41);
  int with_halves = 0;
  for (const Op& op : kAllOps) {
    for (int i = 0; i < 60; ++i) {
      const KernelCall call = in_halves(random_call(rng, op, std::array{variant::kFloat, variant::kInt8, variant::kA16}[i % 3]), rng);
      if (!cpu::has_halves(call)) continue;
      ++with_halves;
      if (call.is<ops::Attention>()) continue;  // which also rounds what it keeps in between
      KernelCall expected = with_own_output(in_floats(call));
      const std::vector<std::uint32_t> words = words_of(execute(kPortableSet, expected));
      for (const KernelSet* set : kernel_sets()) {
        const KernelCall own = with_own_output(call);
        EXPECT_EQ(words_of(execute(*set, own)), words) << set->name << " " << to_string(op) << " " << i;
        if (own.out.empty()) continue;
        const View rounded = stored_as(own.out[0].format, expected.out[0]);
        EXPECT_EQ(bytes_of(own.out[0]), bytes_of(rounded)) << set->name << " " << to_string(op) << " " << i;
      }
    }
  }
  EXPECT_GT(with_halves, 700);
}

bool same_number(Half a, Half b) { return a == b || (std::isnan(half_to_float(a)) && std::isnan(half_to_float(b))); }

// Every float16 with numbers of all sizes: instructions of either width round to the same float16, subnormal ones and overflows too.
TEST(Halves, sums_and_products_of_every_set_are_those_of_float32_rounded_once) {
  std::vector<Half> all(1 << 16), other(all.size()), sums(all.size()), products(all.size());
  std::iota(all.begin(), all.end(), Half{0});
  Rng rng(44);
  for (int i = 0; i < all_or_few(12, 2); ++i) {
    for (Half& h : other) h = static_cast<Half>(rng.below(1 << 16));
    for (const KernelSet* set : kernel_sets()) {
      set->add_halves(all.data(), other.data(), all.size(), sums.data());
      set->relu_halves(all.data(), other.data(), all.size(), products.data());
      for (std::size_t k = 0; k < all.size(); ++k) {
        const float a = half_to_float(all[k]), b = half_to_float(other[k]);
        ASSERT_TRUE(same_number(sums[k], float_to_half(a + b))) << set->name << " " << a << " + " << b;
        ASSERT_TRUE(same_number(products[k], float_to_half((a > 0 ? a : 0.0f) * b))) << set->name << " " << a << " * " << b;
      }
    }
  }
}

TEST(Halves, dot_products_of_every_set_have_the_bits_of_float32_lanes) {
  Rng rng(45);
  for (const std::uint32_t columns : {1u, 15u, 16u, 33u, 100u, 1024u}) {
    for (const std::uint32_t batch : {1u, 2u, 5u}) {
      const View w = weights(rng, 7, columns, Format::f16, Layout::rows), x = weights(rng, batch, columns, Format::f16, Layout::rows);
      const View wide = stored_as(Format::f32, x);
      std::vector<float> expected(7 * batch);
      kPortableSet.dots_f16({w.as<Half>(), 7, columns, columns}, {wide.as<float>(), batch, columns, columns}, expected.data(), 7);
      for (const KernelSet* set : kernel_sets()) {
        std::vector<float> got(7 * batch);
        set->dots_halves({w.as<Half>(), 7, columns, columns}, {x.as<Half>(), batch, columns, columns}, got.data(), 7);
        EXPECT_EQ(got, expected) << set->name << " " << columns << " x " << batch;
      }
    }
  }
}

TEST(Halves, the_reference_reads_and_writes_them_and_counts_their_bytes) {
  Rng rng(42);
  for (const Op& op : kAllOps) {
    for (int i = 0; i < 40; ++i) {
      const KernelCall call = in_halves(random_call(rng, op, i % 2 == 0 ? variant::kFloat : variant::kInt8), rng);
      check_call(call);
      const KernelCall own = with_own_output(call), expected = with_own_output(in_floats(call));
      WorkCounts tally;
      const std::vector<std::uint32_t> words = words_of(run_reference(own, &tally));
      EXPECT_EQ(words_of(run_reference(expected)), words);
      const WorkCounts counts = count(call);
      EXPECT_EQ(counts.read, tally.read) << to_string(op) << " " << i;
      EXPECT_EQ(counts.written, tally.written) << to_string(op) << " " << i;
      EXPECT_EQ(counts.elementwise, tally.elementwise) << to_string(op) << " " << i;
      EXPECT_EQ(counts.conversions, tally.conversions) << to_string(op) << " " << i;
      if (own.out.empty() || op.index() == Op(ops::Attention{}).index()) continue;
      EXPECT_EQ(bytes_of(own.out[0]), bytes_of(stored_as(own.out[0].format, expected.out[0]))) << to_string(op) << " " << i;
    }
  }
}

// By hand: a sum of 3 x 40 halves reads and writes two bytes for each.
TEST(Halves, move_half_of_the_bytes) {
  KernelCall call;
  call.op = ops::Add{};
  call.variant = variant::kFloat;
  call.in = {make_view({3, 40, 0}, Format::f16), make_view({3, 40, 0}, Format::f16)};
  call.out = {make_view({3, 40, 0}, Format::f16)};
  EXPECT_EQ(count(call).read[0], 2u * 2 * 120);
  EXPECT_EQ(count(call).written[0], 2u * 120);
}

constexpr double kRounding = 0x1p-24;  // of float32 rounding
double of_roundings(double n) { return n * kRounding / (1 - n * kRounding); }
// Two numbers that are close may be rounded to neighbours: so far apart are these.
double half_step(double x) { return std::abs(x) * 0x1p-10 + 0x1p-24; }

// As docs/design/kernels.md derives it, with a step of float16 for each score and each result that is stored so.
std::vector<double> attention_bound_in_halves(const KernelCall& call) {
  const auto& op = call.get<ops::Attention>();
  const KvPool pool(call.in[1], op.pool_layers, call.layer);
  const View& q = call.in[0];
  const bool halves = q.format == Format::f16;
  const std::size_t batch = call.batch->size(), dim = pool.dim, heads = elements(q) / batch / dim, group = heads / pool.heads;
  const std::vector<double> queries = values_of(q);
  std::vector<double> bound(values_of(call.out[0]).size());
  const Range slice = sliced(call, pool.heads);
  for (std::size_t b = 0; b < batch; ++b) {
    const Range tokens = visible((*call.batch)[b].position, op.window);
    for (std::size_t h = slice.first * group; h < slice.end() * group; ++h) {
      std::vector<double> p;
      std::vector<std::vector<float>> values;
      double delta = 0;
      for (std::uint32_t t = tokens.first; t < tokens.end(); ++t) {
        std::vector<float> row[2]{std::vector<float>(dim), std::vector<float>(dim)};
        const std::uint32_t block = call.in[2].as<std::uint32_t>()[b * call.in[2].shape[1] + t / pool.block_tokens];
        for (std::uint32_t which = 0; which < 2; ++which) {
          const Bytes at = pool.offset(block, which, static_cast<std::uint32_t>(h / group)) + t % pool.block_tokens * pool.row_bytes(which);
          read_kv_row(pool.format, which, pool.data + at, pool.dim, row[which].data());
        }
        double score = 0, size = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          double x = queries[(b * heads + h) * dim + d] * (op.scales_query ? double{op.scale} : 1.0);
          if (halves) x = half_to_float(float_to_half(static_cast<float>(x)));
          score += x * row[0][d];
          size += std::abs(x * row[0][d]);
        }
        const double scale = op.scales_query ? 1.0 : double{op.scale};
        const double rounded = (of_roundings(static_cast<double>(dim + 15) / 16 + 4) + 3 * kRounding) * size;
        delta = std::max(delta, scale * (rounded + (halves ? half_step(score) : 0)));
        p.push_back(scale * score);
        values.push_back(std::move(row[1]));
      }
      const double top = *std::ranges::max_element(p);
      double total = 0;
      for (double& v : p) total += v = std::exp(v - top);
      const double n = tokens.count, factor = std::expm1(4 * delta) + 8 * kRounding + of_roundings((n + 15) / 16 + 4 + n + 3);
      for (std::size_t d = 0; d < dim; ++d) {
        double size = 0;
        for (std::size_t t = 0; t < p.size(); ++t) size += p[t] / total * std::abs(values[t][d]);
        double& of_result = bound[(b * heads + h) * dim + d];
        of_result = factor * size + 1e-38;
        if (call.out[0].format == Format::f16) of_result += half_step(size * (1 + factor));
      }
    }
  }
  return bound;
}

// A score is stored in float16: beside its error in float32, it may fall to the other side of a tie. So may the result.
TEST(Halves, attention_stays_within_the_bound_of_its_scores_and_is_the_same_on_every_set) {
  Rng rng(43);
  for (int i = 0; i < 120; ++i) {
    KernelCall call = in_halves(random_call(rng, ops::Attention{}, variant::kFloat), rng);
    std::get<ops::Attention>(call.op).scales_query = i % 2 == 0;
    const KernelCall expected = with_own_output(call);
    run_reference(expected);
    const std::vector<double> want = values_of(expected.out[0]), bound = attention_bound_in_halves(call);
    const KernelCall first = with_own_output(call);
    execute(kPortableSet, first);
    const std::vector<double> got = values_of(first.out[0]);
    for (std::size_t e = 0; e < got.size(); ++e) ASSERT_LE(std::abs(got[e] - want[e]), bound[e]) << i << " element " << e;
    for (const KernelSet* set : kernel_sets()) {
      const KernelCall own = with_own_output(call);
      execute(*set, own);
      EXPECT_EQ(bytes_of(own.out[0]), bytes_of(first.out[0])) << set->name << " " << i;
    }
  }
}

// Heads beside its own are another unit's, at work at the same time.
TEST(Halves, attention_by_table_rounds_once_and_writes_its_own_heads_alone) {
  Rng rng(44);
  int sliced = 0;
  for (int i = 0; i < 120; ++i) {
    KernelCall call = in_halves(random_call(rng, ops::Attention{}, variant::kFloat), rng);
    call.variant = variant::kLutExp;
    KernelCall expected = with_own_output(in_floats(call));
    execute(kPortableSet, expected);
    sliced += call.slice.first > 0 && call.out[0].format == Format::f16;
    for (const KernelSet* set : kernel_sets()) {
      const KernelCall own = with_own_output(call);
      execute(*set, own);
      EXPECT_EQ(bytes_of(own.out[0]), bytes_of(stored_as(own.out[0].format, expected.out[0]))) << set->name << " " << i;
    }
  }
  EXPECT_GT(sliced, 10);
}

// One query of 64 numbers c meets 20 keys that are `product` / (64 c) in all of them, and one that is 0.
KernelCall attention_with_products_of(double product, bool scales_query) {
  KernelCall call;
  call.op = ops::Attention{.scale = 0.125f, .scales_query = scales_query};
  call.variant = variant::kFloat;
  call.layer = 0;
  call.batch = std::make_shared<const std::vector<SeqPos>>(std::vector<SeqPos>{{0, 20}});
  const auto filled = [](const View& view, double value) {
    for (std::size_t i = 0; i < elements(view); ++i) view.as<Half>()[i] = float_to_half(static_cast<float>(value));
  };
  View q = make_view({1, 1, 64}, Format::f16), pool = make_view({2, 21, 64}, Format::f16);
  filled(q, 32);
  filled(pool, product / (64 * 32));
  std::fill_n(pool.as<Half>(), 64, Half{0});
  for (std::size_t i = 0; i < 21 * 64; ++i) pool.as<Half>()[21 * 64 + i] = float_to_half(i < 64 ? -8.0f : 3.0f);
  pool.shape = {1, 21, 64};
  call.in = {q, pool, indices({0}, {1, 1, 0})};
  call.out = {make_view({1, 1, 64}, Format::f16)};
  return call;
}

bool all_finite(const View& view) {
  const std::vector<double> values = values_of(view);
  return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
}

// Above 65,504 a product of query and key is no float16; an eighth of it is (MNN-LLM 5.3).
TEST(Halves, products_beyond_65504_overflow_unless_the_query_is_scaled_first) {
  for (const double product : {60000.0, 65472.0, 65536.0, 100000.0, 500000.0}) {
    const bool fits = product <= 65504;
    const KernelCall late = attention_with_products_of(product, false), early = attention_with_products_of(product, true);
    run_reference(late);
    EXPECT_EQ(all_finite(late.out[0]), fits) << product;
    for (const KernelSet* set : kernel_sets()) {
      execute(*set, late);
      EXPECT_EQ(all_finite(late.out[0]), fits) << set->name << " " << product;
      execute(*set, early);
      for (const double y : values_of(early.out[0])) EXPECT_EQ(y, 3) << set->name << " " << product;  // the 20 keys share all weight
    }
  }
  const KernelCall beyond = attention_with_products_of(8 * 65536.0, true);  // what scaling does not save
  execute(kPortableSet, beyond);
  EXPECT_FALSE(all_finite(beyond.out[0]));
}

TEST(Halves, are_refused_where_an_operand_is_no_activation) {
  KernelCall call;
  call.op = ops::RmsNorm{1e-5f};
  call.variant = variant::kFloat;
  call.in = {make_view({2, 8, 0}, Format::f16), make_view({8, 0, 0}, Format::f16)};
  call.out = {make_view({2, 8, 0}, Format::f16)};
  EXPECT_THROW(check_call(call), RunError);  // the weights of a norm
  call.in[1] = make_view({8, 0, 0}, Format::f32);
  check_call(call);
  call.in[0].format = Format::bf16;
  EXPECT_THROW(check_call(call), RunError);
  KernelCall move;
  move.op = ops::Gather{};
  move.variant = variant::kFloat;
  move.in = {make_view({2, 8, 0}, Format::f16), indices({1}, {1, 0, 0})};
  move.out = {make_view({1, 8, 0}, Format::f32)};
  EXPECT_THROW(check_call(move), RunError);  // it converts nothing
}

}  // namespace
}  // namespace vitro
