// Products whose sums are float16: each step has the bits of one float16 fused multiply-add, on sets with such instructions and without.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "engine/kernels/compute_function.hpp"
#include "engine/quant/float16.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

constexpr std::size_t kLanes = 16;

// To nearest, ties to even, by the definition: of all float16 numbers next to x. A double holds any a b + c of float16 numbers that is not
// far from the middle of two of them, so it is rounded once.
Half rounded(double x) {
  const float near = static_cast<float>(x);
  const Half guess = float_to_half(near);
  if (!std::isfinite(near) || std::isinf(half_to_float(guess))) {
    return std::abs(x) < 65520 ? float_to_half(std::copysign(65504.0f, near)) : guess;
  }
  Half best = guess;
  for (const int step : {-1, 1}) {
    if ((guess & 0x7fff) == 0 && step < 0) continue;
    const Half other = static_cast<Half>(guess + step);
    if (std::isinf(half_to_float(other))) continue;
    const double off = std::abs(double{half_to_float(other)} - x), least = std::abs(double{half_to_float(best)} - x);
    if (off < least || (off == least && (other & 1) == 0)) best = other;
  }
  return best;
}

float in_half_lanes(const Half* w, const Half* x, std::size_t n) {
  Half lanes[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) {
    Half& lane = lanes[i % kLanes];
    lane = rounded(double{half_to_float(w[i])} * double{half_to_float(x[i])} + double{half_to_float(lane)});
  }
  for (std::size_t apart = kLanes / 2; apart > 0; apart /= 2) {
    for (std::size_t i = 0; i < apart; ++i) {
      lanes[i] = rounded(double{half_to_float(lanes[i])} + double{half_to_float(lanes[i + apart])});
    }
  }
  return half_to_float(lanes[0]);
}

std::vector<Half> random_halves(Rng& rng, std::size_t n, int exponents) {
  std::vector<Half> halves(n);
  for (Half& h : halves) {
    const int exponent = static_cast<int>(rng.below(2 * static_cast<std::uint64_t>(exponents) + 1)) - exponents;
    h = float_to_half(static_cast<float>(rng.normal()) * std::ldexp(1.0f, exponent));
  }
  return halves;
}

TEST(HalfSums, every_set_rounds_each_step_once) {
  Rng rng(51);
  for (const std::size_t columns : {1u, 7u, 16u, 33u, 100u, 1024u}) {
    for (const int exponents : {0, 4, 11}) {  // with the largest, lanes differ by more than float16 holds, and some are subnormal
      for (int round = 0; round < all_or_few(8, 2); ++round) {
        constexpr std::size_t kRows = 5, kBatch = 5;  // passes of four, of two and of one
        const std::vector<Half> w = random_halves(rng, kRows * columns, exponents), x = random_halves(rng, kBatch * columns, exponents / 2);
        for (const KernelSet* set : kernel_sets()) {
          std::vector<float> y(kRows * kBatch);
          set->half_sums({w.data(), kRows, columns, columns}, {x.data(), kBatch, columns, columns}, y.data(), kRows);
          for (std::size_t b = 0; b < kBatch; ++b) {
            for (std::size_t r = 0; r < kRows; ++r) {
              const float got = y[b * kRows + r], want = in_half_lanes(&w[r * columns], &x[b * columns], columns);
              ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << set->name << " " << columns << ": " << got;
            }
          }
        }
      }
    }
  }
}

// What a rounding to float32 first would get wrong: just above the middle of two float16 numbers, and far below the step of float32.
TEST(HalfSums, a_sum_just_beside_the_middle_of_two_numbers_is_rounded_to_its_side) {
  const auto half = [](float x) { return float_to_half(x); };
  for (const float sign : {1.0f, -1.0f}) {
    // 1 + 2^-11 is the middle of 1 and the next number; 2^-24 more or less decides.
    for (const float side : {1.0f, -1.0f}) {
      std::vector<Half> w(2 * kLanes), x(w.size());
      w[0] = half(sign * side * 0x1p-24f), x[0] = half(1);
      w[kLanes] = half(sign * (1 + 0x1p-5f)), x[kLanes] = half(1 - 0x1p-5f + 0x1p-10f);  // its product has 22 bits
      const double exact = double{half_to_float(w[kLanes])} * double{half_to_float(x[kLanes])} + double{half_to_float(w[0])};
      for (const KernelSet* set : kernel_sets()) {
        float y = 0;
        set->half_sums({w.data(), 1, w.size(), w.size()}, {x.data(), 1, x.size(), x.size()}, &y, 1);
        EXPECT_EQ(y, half_to_float(rounded(exact))) << set->name;
      }
    }
  }
}

TEST(HalfSums, a_sum_beyond_the_largest_number_is_infinite_and_no_other_is) {
  for (const std::size_t terms : {3u, 4u, 200u}) {
    std::vector<Half> w(terms * kLanes), x(w.size(), float_to_half(1));
    for (std::size_t i = 0; i < terms; ++i) w[i * kLanes] = float_to_half(20000);
    for (const KernelSet* set : kernel_sets()) {
      float y = 0;
      set->half_sums({w.data(), 1, w.size(), w.size()}, {x.data(), 1, x.size(), x.size()}, &y, 1);
      EXPECT_EQ(std::isinf(y), terms > 3) << set->name;
    }
  }
}

// As calls, with a bias: activations in either format; then the same in slices and by lists of rows, side by side and scattered.
TEST(HalfSums, calls_give_equal_bits_on_every_set) {
  Rng rng(52);
  for (const std::uint32_t batch : {1u, 4u}) {
    const KernelCall call = matmul_call(rng, Format::f16, Layout::rows, variant::kHalfSums, {37, 200, batch}, true);
    for (const bool halves : {false, true}) {
      const KernelCall given = halves ? in_halves(call, rng) : call;
      std::vector<std::byte> expected;
      for (const KernelSet* set : kernel_sets()) {
        const KernelCall own = with_own_output(given);
        ComputeFunction({std::string(set->name)}).execute(own);
        if (expected.empty()) expected = bytes_of(own.out[0]);
        EXPECT_EQ(bytes_of(own.out[0]), expected) << set->name;
      }
      for (const KernelSet* set : kernel_sets()) {
        ComputeFunction function({std::string(set->name)});
        KernelCall part = with_own_output(given);
        const Bytes row = expected.size() / batch, element = row / part.out[0].shape[1];
        std::memset(part.out[0].data(), 0, expected.size());
        for (const Slice slice : {Slice{0, 5}, Slice{5, 1}, Slice{6, 31}}) {
          part.slice = slice;
          function.execute(part);
        }
        EXPECT_EQ(bytes_of(part.out[0]), expected) << set->name;
        KernelCall listed = with_own_output(given);
        listed.rows = std::make_shared<const std::vector<std::uint32_t>>(std::vector<std::uint32_t>{0, 1, 2, 3, 4, 9, 17, 18, 36});
        for (const KernelCall& some : {listed, placed(rng, listed)}) {
          std::memset(some.out[0].data(), 0, expected.size());
          function.execute(some);
          const std::vector<std::byte> got = bytes_of(some.out[0]);
          for (std::uint32_t b = 0; b < batch; ++b) {
            for (const std::uint32_t r : *listed.rows) {
              const Bytes at = b * row + r * element;
              EXPECT_EQ(std::memcmp(&got[at], &expected[at], element), 0) << set->name << " row " << r;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace vitro
