// A variant is a numeric contract: every set of this machine gives the bits of the portable one, and the portable one
// gives the bits that are written here, on every instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "engine/base/hash.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/quant/float16.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

struct Answer {
  std::vector<std::byte> bytes;
  std::vector<std::uint32_t> words;
  bool operator==(const Answer&) const = default;
};

Answer answer(const KernelSet& set, const KernelCall& call) {
  KernelCall own = with_own_output(call);
  ComputeFunction function({std::string(set.name)});
  Answer result;
  result.words = words_of(function.execute(own));
  for (const View& out : own.out) result.bytes = bytes_of(out);
  return result;
}

void expect_equal_bits(const KernelCall& call, const std::string& what) {
  const Answer expected = answer(kPortableSet, call);
  for (const KernelSet* set : kernel_sets()) {
    EXPECT_TRUE(answer(*set, call) == expected) << set->name << " differs from portable: " << what;
  }
}

TEST(BitEquality, every_set_equals_portable_on_random_calls) {
  Rng rng(7);
  for (const Op& op : kAllOps) {
    for (int i = 0; i < 60; ++i) {
      const KernelCall call = random_call(rng, op, std::array{variant::kFloat, variant::kInt8, variant::kA16}[i % 3]);
      expect_equal_bits(call, std::string(to_string(op)) + " " + std::to_string(i));
    }
  }
}

// The contract of GPUs is that of floats over activations that are rounded to halves first.
TEST(BitEquality, a16_is_float_with_rounded_activations) {
  Rng rng(14);
  for (const Format format : {Format::f16, Format::q4_0, Format::q8_0, Format::q4_k, Format::w(4, 64, 'z')}) {
    const KernelCall call = matmul_call(rng, format, Layout::rows, variant::kA16, {37, 768, 3}, true);
    const Answer got = answer(kernel_set("auto"), call);
    KernelCall rounded = with_own_output(call);
    rounded.variant = variant::kFloat;
    for (std::size_t i = 0; i < elements(rounded.in[1]); ++i) {
      float& x = rounded.in[1].as<float>()[i];
      x = half_to_float(float_to_half(x));
    }
    EXPECT_EQ(answer(kernel_set("auto"), rounded).bytes, got.bytes) << to_string(format);
  }
}

TEST(BitEquality, every_set_equals_portable_on_random_products_of_codes) {
  Rng rng(13);
  for (int i = 0; i < 400; ++i) {
    const KernelCall call = random_code_call(rng);
    expect_equal_bits(call, std::string(to_string(call.in[0].format)) + " " + std::to_string(i));
    if (call.in[0].layout == Layout::rows) expect_equal_bits(placed(rng, call), "in places " + std::to_string(i));
  }
}

constexpr Format kLongRows[] = {Format::f32,     Format::f16,   Format::bf16,  Format::q4_0,   Format::q8_0,  Format::q4_k,
                                Format::q5_k,    Format::q6_k,  Format::iq4_xs, Format::iq1_s, Format::iq1_m, Format::iq2_xxs,
                                Format::iq2_xs,  Format::iq2_s, Format::iq3_xxs, Format::iq3_s};

TEST(BitEquality, every_matmul_format_with_long_rows_and_batches) {
  Rng rng(8);
  for (const Format format : kLongRows) {
    for (const std::uint32_t batch : {1u, 2u, 3u, 7u, 8u, 13u, 17u}) {
      expect_equal_bits(matmul_call(rng, format, Layout::rows, variant::kFloat, {37, 768, batch}), std::string(to_string(format)));
      if (!variant::supports(variant::kInt8, format, Layout::rows)) continue;
      expect_equal_bits(matmul_call(rng, format, Layout::rows, variant::kInt8, {37, 768, batch}), std::string(to_string(format)) + " int8");
      if (!variant::supports(variant::kInt8, format, Layout::tiled)) continue;
      expect_equal_bits(matmul_call(rng, format, Layout::tiled, variant::kInt8, {48, 768, batch}),
                        std::string(to_string(format)) + " tiled");
    }
  }
}

// Of one activation row, sets may multiply 16 rows in places without a copy of them.
TEST(BitEquality, one_activation_row_with_every_number_of_rows_in_places) {
  Rng rng(14);
  for (const Format format : {Format::q4_0, Format::q8_0, Format::q4_k, Format::iq2_xxs}) {
    for (std::uint32_t rows = 1; rows <= 49; ++rows) {
      const std::uint32_t columns = format.block > 32 ? 512 : 32 * (1 + static_cast<std::uint32_t>(rng.below(20)));
      const KernelCall call = matmul_call(rng, format, Layout::rows, variant::kInt8, {rows, columns, 1});
      expect_equal_bits(call, std::string(to_string(format)) + " " + std::to_string(rows));
      expect_equal_bits(placed(rng, call), std::string(to_string(format)) + " in places, " + std::to_string(rows));
      if (format != Format::q4_0) continue;
      const KernelCall apart = with_scales_apart(call);
      EXPECT_EQ(answer(kernel_set("auto"), apart).bytes, answer(kernel_set("auto"), call).bytes) << rows;
      expect_equal_bits(placed(rng, apart), "scales apart, in places, " + std::to_string(rows));
    }
  }
}

// Rows of a matrix do not depend on how many of them, or how many batch rows, are computed in one call.
TEST(BitEquality, slices_and_batches_do_not_change_a_row) {
  Rng rng(9);
  for (const Layout layout : {Layout::rows, Layout::tiled}) {
    const VariantId variant = variant::kInt8;
    const KernelCall whole = matmul_call(rng, Format::q4_0, layout, variant, {64, 96, 9});
    const Answer expected = answer(kernel_set("auto"), whole);
    KernelCall parts = with_own_output(whole);
    ComputeFunction function;
    for (std::uint32_t first = 0; first < 64; first += 16) {
      for (std::uint32_t b = 0; b < 9; ++b) {
        KernelCall part = parts;
        part.slice = {first, 16};
        part.in[1].offset += b * 96 * 4;
        part.out[0].offset += b * 64 * 4;
        part.in[1].shape[0] = part.out[0].shape[0] = 1;
        function.execute(part);
      }
    }
    EXPECT_EQ(bytes_of(parts.out[0]), expected.bytes);
  }
}

// Where a neuron stands in a cache changes nothing, in any variant; nor is a byte between the rows read.
TEST(BitEquality, rows_in_places_give_the_bits_of_rows_in_order) {
  Rng rng(10);
  int with_rows = 0;
  for (int i = 0; i < 240; ++i) {
    const KernelCall call =
        random_call(rng, i % 3 == 0 ? Op(ops::Accumulate{}) : Op(ops::Matmul{}), i % 3 == 1 ? variant::kFloat : variant::kInt8);
    if (call.in[0].layout != Layout::rows) continue;
    const KernelCall scattered = placed(rng, call);
    with_rows += call.rows != nullptr && call.rows->size() > 1;
    const Answer expected = answer(kPortableSet, call);
    for (const KernelSet* set : kernel_sets()) {
      EXPECT_TRUE(answer(*set, scattered) == expected) << set->name << " " << to_string(call.op) << " " << i;
    }
    KernelCall reference = call, reference_scattered = scattered;
    reference.variant = reference_scattered.variant = variant::kReference;
    EXPECT_TRUE(answer(kPortableSet, reference) == answer(kPortableSet, reference_scattered)) << to_string(call.op) << " " << i;
  }
  EXPECT_GT(with_rows, 30);
}

// Long rows, more of them than a group holds, and every row count around the groups' sizes.
TEST(BitEquality, accumulate_of_every_format_with_long_rows) {
  Rng rng(11);
  for (const Format format : kLongRows) {
    for (const std::uint32_t n : {1u, 7u, 8u, 9u, 64u, 131u}) {
      KernelCall call;
      call.op = ops::Accumulate{};
      call.in = {weights(rng, n, 768, format, Layout::rows), floats(rng, {3, n, 0})};
      call.out = {make_view({3, 768, 0}, Format::f32)};
      for (const VariantId id : {variant::kFloat, variant::kInt8}) {
        call.variant = id;
        const std::string what = fmt::format("{} {} {}", variant::name(id), to_string(format), n);
        expect_equal_bits(call, what);
        expect_equal_bits(placed(rng, call), what + " in places");
      }
    }
  }
}

// Where the scales stand is no part of the numbers: tokens do not depend on the layout.
TEST(BitEquality, q4_0_with_its_scales_apart_gives_the_bits_of_q4_0) {
  Rng rng(13);
  for (const Op& op : {Op(ops::Matmul{}), Op(ops::Accumulate{})}) {
    for (const VariantId id : {variant::kFloat, variant::kInt8, variant::kReference, variant::kHmx}) {
      if (id == variant::kHmx && is<ops::Accumulate>(op)) continue;
      for (const std::uint32_t n : {1u, 9u, 16u, 37u, 131u}) {
        for (const std::uint32_t k : {32u, 544u, 1056u}) {
          KernelCall call = matmul_call(rng, Format::q4_0, Layout::rows, id, {n, k, 3}, n % 2 == 1, 4 * rng.below(9));
          if (is<ops::Accumulate>(op)) {
            call.op = op;
            call.in = {call.in[0], floats(rng, {3, n, 0})};
            call.out = {make_view({3, k, 0}, Format::f32)};
          }
          call.slice = {n / 8, ~0u};
          const KernelCall apart = with_scales_apart(call);
          const std::string what = fmt::format("{} {} {} x {}", to_string(op), variant::name(id), n, k);
          for (const KernelSet* set : kernel_sets()) {
            const Answer expected = answer(kPortableSet, call);
            EXPECT_TRUE(answer(*set, apart) == expected) << set->name << ": " << what;
            EXPECT_TRUE(answer(*set, placed(rng, apart)) == expected) << set->name << " in places: " << what;
          }
        }
      }
    }
  }
}

// The contract of KernelSet::placed_coefficients_q4_0, sharing no loop with the kernels: 19 of 21 neurons fire, so a second group has 3.
TEST(Accumulate, quantises_coefficients_of_sixteen_fired_neurons_together) {
  Rng rng(14);
  KernelCall call;
  call.op = ops::Accumulate{};
  call.variant = variant::kInt8;
  call.in = {weights(rng, 21, 64, Format::q4_0, Layout::rows), floats(rng, {1, 21, 0})};
  call.out = {make_view({1, 64, 0}, Format::f32)};
  float* h = call.in[1].as<float>();
  h[4] = h[9] = 0;
  const Bytes stride = row_bytes(Format::q4_0, 64);
  std::vector<std::uint32_t> firing;
  for (std::uint32_t n = 0; n < 21; ++n) {
    if (h[n] != 0) firing.push_back(n);
  }
  float want[64] = {};
  for (std::size_t first = 0; first < firing.size(); first += 16) {
    const std::size_t end = std::min<std::size_t>(first + 16, firing.size());
    for (std::size_t block = 0; block < 2; ++block) {
      float c[16] = {}, amax = 0;
      for (std::size_t i = first; i < end; ++i) {
        std::uint16_t half;
        std::memcpy(&half, call.in[0].data() + firing[i] * stride + 18 * block, 2);
        c[i - first] = h[firing[i]] * half_to_float(half);
        amax = std::max(amax, std::abs(c[i - first]));
      }
      for (std::size_t d = 0; d < 32; ++d) {
        int sum = 0;
        for (std::size_t i = first; i < end; ++i) {
          const int both = std::to_integer<int>(call.in[0].data()[firing[i] * stride + 18 * block + 2 + d % 16]);
          sum += static_cast<int>(std::nearbyint(c[i - first] * (127.0f / amax))) * ((d < 16 ? both & 15 : both >> 4) - 8);
        }
        want[32 * block + d] = std::fma(static_cast<float>(sum), amax / 127.0f, want[32 * block + d]);
      }
    }
  }
  for (const KernelSet* set : kernel_sets()) {
    const KernelCall own = with_own_output(call);
    ComputeFunction({std::string(set->name)}).execute(own);
    for (std::size_t d = 0; d < 64; ++d) EXPECT_EQ(own.out[0].as<float>()[d], want[d]) << set->name << " " << d;
  }
}

// The contract of accumulate in four lines, sharing no loop with the kernels; a neuron at rest is not even looked at.
TEST(Accumulate, adds_fired_neurons_in_ascending_order_by_one_fused_step_each) {
  Rng rng(12);
  KernelCall call;
  call.op = ops::Accumulate{};
  call.variant = variant::kFloat;
  call.in = {weights(rng, 50, 96, Format::f32, Layout::rows), floats(rng, {2, 50, 0})};
  call.out = {make_view({2, 96, 0}, Format::f32)};
  call.slice = {3, 40};
  for (const std::uint32_t b : {0u, 1u}) call.in[1].as<float>()[b * 50 + 20] = b == 0 ? 0.0f : 1.0f;
  call.in[0].as<float>()[20 * 96 + 5] = std::numeric_limits<float>::infinity();
  for (const KernelSet* set : kernel_sets()) {
    const KernelCall own = with_own_output(call);
    ComputeFunction({std::string(set->name)}).execute(own);
    for (std::uint32_t b = 0; b < 2; ++b) {
      for (std::uint32_t d = 0; d < 96; ++d) {
        float y = 0;
        for (std::uint32_t n = 3; n < 43; ++n) {
          const float h = call.in[1].as<float>()[b * 50 + n];
          if (h != 0) y = std::fma(h, call.in[0].as<float>()[n * 96 + d], y);
        }
        EXPECT_EQ(own.out[0].as<float>()[b * 96 + d], y) << set->name << " " << b << " " << d;
      }
    }
    EXPECT_TRUE(std::isfinite(own.out[0].as<float>()[5]));
    EXPECT_TRUE(std::isinf(own.out[0].as<float>()[96 + 5]));
  }
}

// x86 and aarch64 hold each other: the hashes were taken on x86 and are checked under emulation too. Inputs come from our
// own generator through normal(), whose logarithm and cosine are rounded to float before use.
TEST(BitEquality, outputs_of_fixed_seeds_have_the_committed_hashes) {
  const std::map<std::string_view, std::string> committed = {
      {"embed", "9fbc03bdc9ba5f94"},      {"rms_norm", "d4f89da4b53ddc49"},   {"matmul", "beb5a517ac76d8c7"},
      {"rope", "7f44649e684a7b81"},       {"kv_append", "1535a78b92a9474c"},  {"attention", "5df94d0ddf7df939"},
      {"glu", "c5171fe30cac86a6"},        {"add", "c769f64948f360b5"},        {"gather", "94ad9a55d47b02e0"},
      {"route", "2115e5c6f7e4e221"},      {"expert_sum", "c521e3cb4e5dab20"}, {"reduce", "6f2a49ed63f63933"},
      {"sample", "32a4f1633530324a"},     {"copy", "351b05195415234e"},       {"select", "15c5bf359809da8a"},
      {"accumulate", "ed935097202ea5b6"}, {"kv_stage", "82a03cdff5d37f48"},   {"add_product", "c1720a3498bbc6f9"},
      {"move", "f43362e1ed8da596"},       {"inverse_rms", "f34700bade12aaf9"}, {"scale_rows", "d8c1eb59aa20ff8b"},
      {"layer_norm", "f856ca12358e9dd8"}, {"add_gated", "b451c47061924ac5"},
      {"attention_scores", "a6228fec1cb8c7ee"},  {"attention_weights", "fb5c67ad464e2c3d"},
      {"attention_values", "7a561e8806a19c50"},
  };
  for (const Op& op : kAllOps) {
    if (is<ops::Precompute, ops::Softmax>(op)) continue;  // no outputs, and those of the reference, whose rounding is the C library's
    Hash hash;
    Rng rng(2024);
    for (int i = 0; i < 40; ++i) {
      const Answer result = answer(kernel_set("auto"), random_call(rng, op, i % 2 == 0 ? variant::kFloat : variant::kInt8));
      hash.add(result.bytes);
      for (const std::uint32_t word : result.words) hash.add(std::uint64_t{word});
    }
    EXPECT_EQ(hash.hex(), committed.at(to_string(op))) << to_string(op);
  }
}

}  // namespace
}  // namespace vitro
