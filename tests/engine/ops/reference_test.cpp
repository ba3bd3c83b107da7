// Every operator against the reference in double, within the bounds that docs/design/kernels.md derives.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/kernels/compute_function.hpp"
#include "engine/ops/contract.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/bounds.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

// Every element of the whole output buffer: outside the slice both must have left it alone, and the bound is 0 there.
void expect_within_bound(const KernelSet& set, const KernelCall& call, const std::string& what) {
  KernelCall computed = with_own_output(call), expected = with_own_output(call);
  ComputeFunction function({std::string(set.name)});
  function.execute(computed);
  run_reference(expected);
  if (call.out.empty()) return;
  const std::vector<double> bound = error_bounds(call);
  const std::vector<double> got = values_of(computed.out[0]), want = values_of(expected.out[0]);
  ASSERT_EQ(got.size(), bound.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), bound[i]) << set.name << " " << what << " element " << i << ": " << got[i] << " for " << want[i];
  }
}

constexpr VariantId kContracts[] = {variant::kFloat, variant::kInt8, variant::kA16};

TEST(Reference, every_set_stays_within_the_derived_bounds_on_random_calls) {
  Rng rng(17);
  for (const Op& op : kAllOps) {
    for (int i = 0; i < 60; ++i) {
      const KernelCall call = random_call(rng, op, kContracts[i % std::size(kContracts)]);
      for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, call, std::string(to_string(op)) + " " + std::to_string(i));
    }
  }
}

TEST(Reference, every_set_appends_what_the_reference_appends_to_each_copy) {
  Rng rng(22);
  for (const Format format : {Format::f32, Format::f16}) {
    KernelCall call = append_of_copies(rng, format);
    for (const Slice slice : kCopySlices) {
      call.slice = slice;
      for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, call, "copies");
    }
  }
}

TEST(Reference, every_set_stays_within_the_derived_bounds_on_random_products_of_codes) {
  Rng rng(21);
  for (int i = 0; i < 100; ++i) {
    const KernelCall call = random_code_call(rng);
    for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, call, std::to_string(i));
  }
}

TEST(Reference, matmul_bounds_hold_for_long_rows) {
  const std::uint32_t kLong = all_or_few(4096, 1024);
  Rng rng(18);
  for (const Format format : all_formats()) {
    if (format == Format::q4_nibbles || !variant::supports(variant::kFloat, format, Layout::rows)) continue;
    const KernelCall call = matmul_call(rng, format, Layout::rows, variant::kFloat, {21, kLong, 5}, true);
    for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, call, std::string(to_string(format)));
    const KernelCall half = matmul_call(rng, format, Layout::rows, variant::kA16, {21, kLong, 5}, true);
    for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, half, std::string(to_string(format)) + " a16");
    if (!variant::supports(variant::kInt8, format, Layout::tiled)) continue;
    const KernelCall int8 = matmul_call(rng, format, Layout::tiled, variant::kInt8, {32, kLong, 5});
    for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, int8, std::string(to_string(format)) + " int8");
  }
}

// Strips of tile groups, cut between them: the float contract and, on the cores, the matrix unit's read them as they lie.
TEST(Reference, matmul_bounds_hold_for_strips) {
  Rng rng(27);
  for (const Slice slice : {Slice{}, Slice{32, 64}}) {
    KernelCall call = matmul_call(rng, Format::q4_0_tile, Layout::strips, variant::kFloat, {128, 192, 5}, true);
    call.slice = slice;
    for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, call, "strips");
  }
  KernelCall cut = matmul_call(rng, Format::q4_0_tile, Layout::strips, variant::kFloat, {128, 64, 1});
  cut.slice = {16, 64};
  EXPECT_THROW(check_call(cut), RunError);
}

// Every second neuron rests, and groups of sixteen end within the call.
TEST(Reference, sums_in_int8_stay_within_their_bound_and_make_one_coefficient_for_each_block_of_a_row) {
  Rng rng(25);
  for (const std::uint32_t n : {1u, 16u, 37u, 131u}) {
    KernelCall call;
    call.op = ops::Accumulate{};
    call.variant = variant::kInt8;
    call.in = {weights(rng, n, 544, Format::q4_0, Layout::rows), floats(rng, {3, n, 0})};
    for (std::uint32_t i = 0; i < 3 * n; i += 2) call.in[1].as<float>()[i] = 0;
    call.out = {make_view({3, 544, 0}, Format::f32)};
    call.slice = {n / 8, ~0u};
    for (const KernelSet* set : kernel_sets()) expect_within_bound(*set, call, std::to_string(n));
    WorkCounts tally;
    run_reference(call, &tally);
    EXPECT_EQ(count(call).conversions, tally.conversions);
    EXPECT_EQ(tally.conversions, (n - n / 8) * 3 * 17);
  }
}

// From anywhere to anywhere, and nothing beside it: every set, the reference, and the work that is counted.
TEST(Reference, rows_are_copied_from_their_places_to_their_places) {
  Rng rng(26);
  for (int i = 0; i < 20; ++i) {
    const std::uint32_t rows = 1 + static_cast<std::uint32_t>(rng.below(9)), width = 16 * (1 + static_cast<std::uint32_t>(rng.below(4)));
    const Bytes stride = 4 * width / kRowOffsetUnit;
    auto from = std::make_shared<std::vector<std::uint32_t>>(), to = std::make_shared<std::vector<std::uint32_t>>();
    KernelCall call;
    call.op = ops::Copy{};
    call.variant = variant::kFloat;
    call.in = {floats(rng, {20, width, 0})};
    call.out = {floats(rng, {20, width, 0})};
    std::vector<double> expected = values_of(call.out[0]);
    const std::vector<double> x = values_of(call.in[0]);
    std::vector<std::uint32_t> places(20);
    std::iota(places.begin(), places.end(), 0u);
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::swap(places[r], places[r + rng.below(20 - r)]);
      const auto source = static_cast<std::uint32_t>(rng.below(20));
      from->push_back(static_cast<std::uint32_t>(source * stride));
      to->push_back(static_cast<std::uint32_t>(places[r] * stride));
      std::copy_n(x.begin() + source * width, width, expected.begin() + places[r] * width);
    }
    call.rows = from, call.row_offsets = to;
    KernelCall reference = with_own_output(call);
    reference.in[0].shape[0] = reference.out[0].shape[0] = rows;
    WorkCounts tally;
    check_call(reference);
    run_reference(reference, &tally);
    EXPECT_EQ(count(reference).read, tally.read);
    EXPECT_EQ(count(reference).written, tally.written);
    reference.out[0].shape[0] = 20;
    EXPECT_EQ(values_of(reference.out[0]), expected);
    for (const KernelSet* set : kernel_sets()) {
      KernelCall own = with_own_output(call);
      own.in[0].shape[0] = own.out[0].shape[0] = rows;
      ComputeFunction({std::string(set->name)}).execute(own);
      own.out[0].shape[0] = 20;
      EXPECT_EQ(values_of(own.out[0]), expected) << set->name;
    }
  }
}

// The two choose from logits whose gaps are far above rounding, so ids are equal; weights agree to rounding.
TEST(Reference, choices_agree) {
  Rng rng(19);
  for (int i = 0; i < 200; ++i) {
    const KernelCall route = random_call(rng, ops::Route{}, variant::kFloat);
    const Outcome got = ComputeFunction().execute(route), want = run_reference(route);
    const auto& a = std::get<std::vector<ExpertChoice>>(got);
    const auto& b = std::get<std::vector<ExpertChoice>>(want);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t r = 0; r < a.size(); ++r) {
      EXPECT_EQ(a[r].ids, b[r].ids);
      for (std::size_t j = 0; j < a[r].ids.size(); ++j) EXPECT_NEAR(a[r].weights[j], b[r].weights[j], 4e-6 * b[r].weights[j]);
    }
    const KernelCall sample = random_call(rng, ops::Sample{}, variant::kFloat);
    EXPECT_EQ(std::get<TokenChoice>(ComputeFunction().execute(sample)).tokens, std::get<TokenChoice>(run_reference(sample)).tokens);
  }
}

// A choice competes with what is within 2 % of it: here 1 with 0.99, then 0.99 with nothing, whatever came before.
TEST(Route, a_sparse_mixer_weighs_a_choice_against_its_competitors_alone) {
  KernelCall call;
  call.in = {make_view({2, 4, 0}, Format::f32)};
  const float logits[] = {0.5f, 0.99f, 1.0f, -2.0f, -1.0f, -3.0f, -1.01f, -3.05f};
  std::copy(std::begin(logits), std::end(logits), call.in[0].as<float>());
  const double near = 1 / (1 + std::exp(-0.01));
  for (const float scale : {1.0f, 2.0f}) {
    call.op = ops::Route{.k = 3, .scores = ops::Scores::sparse_mixer, .scale = scale};
    for (const Outcome& outcome : {ComputeFunction().execute(call), run_reference(call)}) {
      const auto& choices = std::get<std::vector<ExpertChoice>>(outcome);
      EXPECT_EQ(choices[0].ids, (std::vector<std::uint16_t>{2, 1, 0}));
      EXPECT_EQ(choices[1].ids, (std::vector<std::uint16_t>{0, 2, 1}));
      const double expected[2][3] = {{near, 1, 1}, {near, 1, 1 / (1 + std::exp(-0.05))}};
      for (std::size_t r = 0; r < 2; ++r) {
        for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(choices[r].weights[j], scale * expected[r][j], 1e-6) << r << " " << j;
      }
    }
  }
}

TEST(Route, a_sparse_mixer_of_the_kernels_is_that_of_the_reference) {
  Rng rng(29);
  std::size_t competed = 0;
  for (int i = 0; i < 300; ++i) {
    KernelCall call = random_call(rng, ops::Route{}, variant::kFloat);
    call.op = ops::Route{std::get<ops::Route>(call.op).k, false, ops::Scores::sparse_mixer, 1};
    const Outcome got = ComputeFunction().execute(call), want = run_reference(call);
    const auto &a = std::get<std::vector<ExpertChoice>>(got), &b = std::get<std::vector<ExpertChoice>>(want);
    for (std::size_t r = 0; r < b.size(); ++r) {
      EXPECT_EQ(a[r].ids, b[r].ids);
      for (std::size_t j = 0; j < b[r].ids.size(); ++j) {
        EXPECT_NEAR(a[r].weights[j], b[r].weights[j], 4e-6 * b[r].weights[j]);
        competed += b[r].weights[j] < 1;
      }
    }
  }
  EXPECT_GT(competed, 100u);
}

// Its two rows differ in the gate alone: sigmoid(0) and sigmoid(log 3).
TEST(AddGated, a_row_takes_as_much_as_its_gate_lets_through) {
  KernelCall call;
  call.op = ops::AddGated{};
  call.in = {make_view({2, 2, 0}, Format::f32), make_view({2, 2, 0}, Format::f32), make_view({2, 1, 0}, Format::f32),
             make_view({1, 0, 0}, Format::f32)};
  call.out = {make_view({2, 2, 0}, Format::f32)};
  for (std::size_t i = 0; i < 4; ++i) {
    call.in[0].as<float>()[i] = 1;
    call.in[1].as<float>()[i] = 4;
  }
  call.in[2].as<float>()[0] = 0, call.in[2].as<float>()[1] = 1;
  call.in[3].as<float>()[0] = std::log(3.0f);
  ComputeFunction().execute(call);
  EXPECT_EQ(call.out[0].as<float>()[1], 3);
  EXPECT_NEAR(call.out[0].as<float>()[2], 4, 1e-6);
}

TEST(Reference, active_neurons_agree_with_the_gate) {
  Rng rng(20);
  for (int i = 0; i < 100; ++i) {
    KernelCall call = random_call(rng, ops::Glu{}, variant::kFloat);
    call.op = ops::Glu{Activation::relu, true};
    EXPECT_EQ(words_of(ComputeFunction().execute(with_own_output(call))), words_of(run_reference(with_own_output(call))));
  }
}

TEST(Reference, selections_agree_away_from_the_threshold) {
  Rng rng(23);
  std::size_t selected = 0;
  for (int i = 0; i < 200; ++i) {
    KernelCall call = random_call(rng, ops::Select{}, variant::kFloat);
    auto& select = std::get<ops::Select>(call.op);
    if (select.activation) select.activation = Activation::relu;  // which does not round
    const Outcome got = ComputeFunction().execute(call);
    EXPECT_EQ(words_of(got), words_of(run_reference(call)));
    for (const IndexList& row : std::get<ActiveSet>(got).rows) selected += row->size();
  }
  EXPECT_GT(selected, 1000u);
}

TEST(Softmax, is_that_of_each_row_however_it_is_made_and_how_often) {
  KernelCall call;
  call.in = {make_view({2, 3, 0}, Format::f32)};
  call.out = {make_view({2, 3, 0}, Format::f32)};
  const float x[] = {0, 0, std::log(2.0f), -1000, 0, 1000};
  std::copy(std::begin(x), std::end(x), call.in[0].as<float>());
  for (const Exponential exponential : {Exponential::table, Exponential::f16, Exponential::f32}) {
    call.op = ops::Softmax{exponential, 3};
    ComputeFunction().execute(call);
    const float expected[] = {0.25f, 0.25f, 0.5f, 0, 0, 1};
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(call.out[0].as<float>()[i], expected[i], 1e-6) << i;
  }
  call.op = ops::Softmax{.times = 1};
  const WorkCounts once = count(call);
  call.op = ops::Softmax{.times = 3};
  EXPECT_EQ(count(call).elementwise, 3 * once.elementwise);
  EXPECT_EQ(count(call).read, once.read);
  call.op = ops::Softmax{.times = 0};
  EXPECT_THROW(ComputeFunction().execute(call), RunError);
}

// By hand: a score of -2 is far from zero under silu's threshold, but below every threshold without an activation.
TEST(Select, compares_the_magnitude_of_the_activation_or_the_score_itself) {
  KernelCall call;
  call.in = {make_view({2, 4, 0}, Format::f32)};
  const float scores[] = {-2.0f, 0.1f, 0.5f, 3.0f, 0.0f, -0.1f, 9.0f, 0.6f};
  std::copy(std::begin(scores), std::end(scores), call.in[0].as<float>());
  const auto rows = [&](float threshold, std::optional<Activation> act = {}) {
    call.op = ops::Select{threshold, act};
    std::vector<std::vector<std::uint32_t>> ids;
    const Outcome outcome = ComputeFunction().execute(call);
    for (const IndexList& row : std::get<ActiveSet>(outcome).rows) ids.push_back(*row);
    return ids;
  };
  using Ids = std::vector<std::vector<std::uint32_t>>;
  EXPECT_EQ(rows(0.5f), (Ids{{3}, {2, 3}}));
  EXPECT_EQ(rows(0, Activation::relu), (Ids{{1, 2, 3}, {2, 3}}));
  EXPECT_EQ(rows(0.2f, Activation::silu), (Ids{{0, 2, 3}, {2, 3}}));  // silu(-2) is -0.238, silu(0.1) 0.052
  call.slice = {1, 2};
  EXPECT_EQ(rows(-1), (Ids{{1, 2}, {1, 2}}));
}

// Each head is normalised by itself, those outside the slice are left alone and not counted.
TEST(Reference, a_norm_of_heads_is_a_norm_of_each_one_in_the_slice) {
  Rng rng(23);
  KernelCall call = norm_of_heads(rng);
  for (const Slice slice : kHeadSlices) {
    call.slice = slice;
    for (const KernelSet* set : kernel_sets()) {
      expect_within_bound(*set, call, "heads");
      KernelCall computed = with_own_output(call);
      ComputeFunction({std::string(set->name)}).execute(computed);
      KernelCall rows = with_own_output(call);  // the same elements as 15 plain rows
      rows.slice = {};
      rows.in[0].shape = rows.out[0].shape = {15, 24, 0};
      ComputeFunction({std::string(set->name)}).execute(rows);
      for (std::uint32_t i = 0; i < 3 * 5 * 24; ++i) {
        const std::uint32_t head = i / 24 % 5;
        const bool inside = head >= slice.first && (slice.count == ~0u || head < slice.first + slice.count);
        const float* untouched = call.out[0].as<float>();
        ASSERT_EQ(computed.out[0].as<float>()[i], inside ? rows.out[0].as<float>()[i] : untouched[i]) << set->name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace vitro
