// count(): bytes, multiply-adds, conversions and runs of a call, against the tally that the reference keeps, and by hand.
#include <gtest/gtest.h>

#include "engine/ops/contract.hpp"
#include "engine/ops/kernel_call.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

void expect_equal_counts(const WorkCounts& a, const WorkCounts& b, const std::string& what) {
  EXPECT_EQ(a.read, b.read) << what;
  EXPECT_EQ(a.written, b.written) << what;
  EXPECT_EQ(a.macs, b.macs) << what;
  EXPECT_EQ(a.elementwise, b.elementwise) << what;
  EXPECT_EQ(a.lookups, b.lookups) << what;
  EXPECT_EQ(a.conversions, b.conversions) << what;
  EXPECT_EQ(a.row_runs, b.row_runs) << what;
}

TEST(Count, equals_the_tally_of_the_reference) {
  Rng rng(21);
  for (const Op& op : kAllOps) {
    for (int i = 0; i < 60; ++i) {
      const KernelCall call = random_call(rng, op, i % 2 == 0 ? variant::kFloat : variant::kInt8);
      WorkCounts tally;
      run_reference(with_own_output(call), &tally);
      expect_equal_counts(count(call), tally, std::string(to_string(op)) + " " + std::to_string(i));
      if (!is<ops::Matmul, ops::Accumulate>(op) || call.in[0].layout != Layout::rows) continue;
      const KernelCall scattered = placed(rng, call);
      WorkCounts there;
      run_reference(with_own_output(scattered), &there);
      expect_equal_counts(count(scattered), there, std::string(to_string(op)) + " in places " + std::to_string(i));
      EXPECT_EQ(there.read, tally.read);
    }
  }
}

TEST(Count, a_product_of_activations_that_were_quantised_before_converts_none) {
  Rng rng(23);
  for (const VariantId variant : {variant::kInt8, variant::kInt8Rows, variant::kFloat}) {
    KernelCall call = matmul_call(rng, Format::q4_0, Layout::rows, variant, {16, 64, 3});
    const std::uint64_t first = count(call).conversions;
    EXPECT_EQ(first, variant == variant::kFloat ? 16u * 64 : 3u * 64);
    call.quantised_before = true;
    EXPECT_EQ(count(call).conversions, variant == variant::kInt8 ? 0 : first) << "rows of one scale are made anew";
    if (variant == variant::kInt8Rows) continue;  // the reference has no tally of it
    WorkCounts tally;
    run_reference(with_own_output(call), &tally);
    expect_equal_counts(count(call), tally, std::string(variant::name(variant)));
  }
}

// A static shape: what a row does not see is read and multiplied all the same.
TEST(Count, of_attention_with_static_keys_is_that_of_rows_that_see_them_all) {
  Rng rng(22);
  for (int i = 0; i < 60; ++i) {
    KernelCall call = random_call(rng, ops::Attention{}, variant::kFloat);
    std::uint32_t needed = 1;
    for (const SeqPos& row : *call.batch) needed = std::max(needed, row.position + 1);
    std::get<ops::Attention>(call.op).keys = needed + static_cast<std::uint32_t>(i % 3);
    WorkCounts tally;
    run_reference(with_own_output(call), &tally);
    expect_equal_counts(count(call), tally, std::to_string(i));
    std::get<ops::Attention>(call.op).keys = needed;
    KernelCall all = call;
    std::vector<SeqPos> rows = *call.batch;
    for (SeqPos& row : rows) row.position = needed - 1;
    all.batch = std::make_shared<const std::vector<SeqPos>>(std::move(rows));
    all.op = ops::Attention{.pool_layers = call.get<ops::Attention>().pool_layers, .scales_query = call.get<ops::Attention>().scales_query};
    expect_equal_counts(count(call), count(all), "all see " + std::to_string(needed));
  }
}

// What fusion saves is the traffic of scores and weights alone.
TEST(Count, of_attentions_parts_is_that_of_the_whole_beside_what_they_pass_on) {
  Rng rng(25);
  for (int i = 0; i < 60; ++i) {
    const KernelCall whole = random_call(rng, ops::Attention{}, variant::kFloat);
    const auto& op = whole.get<ops::Attention>();
    const std::uint32_t rows = whole.in[0].shape[0], heads = whole.in[0].shape[1], pool_heads = whole.in[1].shape[0];
    const View numbers = make_view({rows, heads, 64}, Format::f32);
    KernelCall scores = whole, weights = whole, values = whole;
    scores.op = ops::AttentionScores{op.scale, op.window, op.pool_layers};
    scores.out = {numbers};
    weights.op = ops::AttentionWeights{op.window};
    weights.in = weights.out = {numbers};
    const Range slice = sliced(whole, pool_heads);
    weights.slice = {slice.first * heads / pool_heads, slice.count * heads / pool_heads};
    values.op = ops::AttentionValues{op.window, op.pool_layers};
    values.in[0] = numbers;
    WorkCounts sum;
    for (const KernelCall* part : {&scores, &weights, &values}) {
      check_call(*part);
      const WorkCounts counts = count(*part);
      sum.macs += counts.macs;
      sum.elementwise += counts.elementwise;
      sum.conversions += counts.conversions;
      sum.row_runs += counts.row_runs;
      for (std::size_t p = 0; p < kPlacements; ++p) {
        sum.read[p] += counts.read[p];
        sum.written[p] += counts.written[p];
      }
    }
    WorkCounts expected = count(whole);
    const Bytes passed = 2 * 4 * expected.macs / (2 * whole.in[1].shape[2]);  // twice, of a number for each key and each value
    expected.read[0] += passed;
    expected.written[0] += passed;
    expect_equal_counts(sum, expected, std::to_string(i));
  }
}

// Heads outside the slice are not counted.
TEST(Count, of_a_norm_of_heads_is_the_tally_of_those_in_the_slice) {
  Rng rng(23);
  KernelCall call = norm_of_heads(rng);
  for (const Slice slice : kHeadSlices) {
    call.slice = slice;
    WorkCounts tally;
    run_reference(with_own_output(call), &tally);
    expect_equal_counts(count(call), tally, "heads");
  }
}

// Every copy is written; a head is read once, for however many of them the slice has.
TEST(Count, of_an_append_into_copies_is_the_tally_of_those_in_the_slice) {
  Rng rng(24);
  for (const Format format : {Format::f32, Format::f16}) {
    KernelCall call = append_of_copies(rng, format);
    for (const Slice slice : kCopySlices) {
      call.slice = slice;
      WorkCounts tally;
      run_reference(with_own_output(call), &tally);
      expect_equal_counts(count(call), tally, "copies");
    }
    call.slice = {1, 4};  // the last two of the first head, the first two of the second
    const std::uint64_t row = 3 * 24;
    EXPECT_EQ(count(call).written[0], 2 * 4 * row * (format == Format::f16 ? 2 : 4));
    EXPECT_EQ(count(call).read[0], 2 * 2 * row * 4 + 3 * 4);
  }
}

// By hand: 2 rows of 64 q4_0 weights (2 x 36 bytes), 3 activation rows, a bias.
TEST(Count, of_a_small_matmul_by_hand) {
  Rng rng(22);
  KernelCall call = matmul_call(rng, Format::q4_0, Layout::rows, variant::kInt8, {5, 64, 3}, true);
  call.slice = {1, 2};
  const WorkCounts counts = count(call);
  EXPECT_EQ(counts.read[0], 2u * 36 + 3 * 64 * 4 + 2 * 4);
  EXPECT_EQ(counts.written[0], 2u * 3 * 4);
  EXPECT_EQ(counts.macs, 2u * 3 * 64);
  EXPECT_EQ(counts.conversions, 3u * 64);
  EXPECT_EQ(counts.elementwise, 6u);
  EXPECT_EQ(counts.row_runs, 1u);
}

// The same two rows: 2 x 32 bytes of nibbles and 2 x 4 of scales. The reference reads as many.
TEST(Count, scales_apart_are_read_for_the_rows_that_are_named) {
  Rng rng(22);
  KernelCall call = with_scales_apart(matmul_call(rng, Format::q4_0, Layout::rows, variant::kInt8, {5, 64, 3}, true));
  call.slice = {1, 2};
  const WorkCounts counts = count(call);
  EXPECT_EQ(counts.read[0], 2u * 32 + 2 * 4 + 3 * 64 * 4 + 2 * 4);
  EXPECT_EQ(counts.row_runs, 1u);
  WorkCounts tally;
  run_reference(call, &tally);
  EXPECT_EQ(tally.read, counts.read);
  EXPECT_EQ(tally.elementwise, counts.elementwise);
  KernelCall sum;
  sum.op = ops::Accumulate{};
  sum.variant = variant::kFloat;
  sum.in = {call.in[0], floats(rng, {1, 5, 0}), call.in[2]};
  sum.out = {make_view({1, 64, 0}, Format::f32)};
  WorkCounts other;
  run_reference(sum, &other);
  EXPECT_EQ(count(sum).read, other.read);
  EXPECT_EQ(count(sum).read[0], 5u * 36 + 5 * 4);
}

// By hand: rows 4, 5, 6 and 9 of 64 halves (128 bytes, 2 units); 4 and 5 stand together, then 9 and 6 behind them but the
// other way round: bytes 0-256, 384-512 (6), 256-384 (9).
TEST(Count, places_make_the_runs) {
  Rng rng(24);
  KernelCall call = matmul_call(rng, Format::f16, Layout::rows, variant::kFloat, {10, 64, 1});
  const auto list = [](std::vector<std::uint32_t> ids) { return std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)); };
  call.rows = list({4, 5, 6, 9});
  EXPECT_EQ(count(call).row_runs, 2u);
  call.row_offsets = list({0, 2, 6, 4});
  EXPECT_EQ(count(call).row_runs, 3u);
  EXPECT_EQ(count(call).read[0], 4u * 128 + 64 * 4);
  call.row_offsets = list({0, 2, 4, 6});
  EXPECT_EQ(count(call).row_runs, 1u);
}

}  // namespace
}  // namespace vitro
