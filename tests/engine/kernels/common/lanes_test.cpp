// Laws of single loops: the accuracy of exp, the 16-lane order, int8 quantisation, and what sampling draws.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>

#include "engine/kernels/bench.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "tests/effort.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;

// softmax of {0, x} with x <= 0 leaves exp(x) in its second place.
float exp_of(const KernelSet& set, float x) {
  float s[2] = {0, x};
  set.softmax(s, 2, 1.0f);
  return s[1];
}

TEST(Exp, stays_within_its_bound) {
  for (const KernelSet* set : kernel_sets()) {
    double worst = 0;
    for (std::uint32_t bits = std::bit_cast<std::uint32_t>(1e-8f); bits < std::bit_cast<std::uint32_t>(87.0f); bits += 1009) {
      const float x = -std::bit_cast<float>(bits);
      const double exact = std::exp(double{x});
      worst = std::max(worst, std::abs(exp_of(*set, x) - exact) / exact);
    }
    EXPECT_LT(worst, 0x1p-23) << set->name;
    EXPECT_GT(worst, 0x1p-26) << "a float can not be this near: the measurement is broken";
    EXPECT_EQ(exp_of(*set, -87.5f), 0.0f);
    EXPECT_EQ(exp_of(*set, -0.0f), 1.0f);
  }
}

// A transcription of the contract of variants.hpp that shares no code with lanes.hpp.
TEST(Dots, add_in_the_order_of_the_contract) {
  Rng rng(3);
  for (const std::size_t n : {1u, 15u, 16u, 17u, 100u, 4096u}) {
    std::vector<float> w(n), x(n);
    for (auto* v : {&w, &x}) {
      for (float& f : *v) f = static_cast<float>(rng.normal());
    }
    float lane[16] = {};
    for (std::size_t k = 0; k < n; ++k) lane[k % 16] = std::fma(w[k], x[k], lane[k % 16]);
    for (int apart = 8; apart > 0; apart /= 2) {
      for (int l = 0; l < apart; ++l) lane[l] += lane[l + apart];
    }
    for (const KernelSet* set : kernel_sets()) {
      float y = 0;
      set->dots_f32({w.data(), 1, n, n}, {x.data(), 1, n, n}, &y, 1);
      EXPECT_EQ(y, lane[0]) << set->name << " " << n;
    }
  }
}

TEST(Quantise, is_within_half_a_step_and_survives_zero_and_extremes) {
  Rng rng(4);
  std::vector<float> x(32 * 8);
  for (float& f : x) f = static_cast<float>(rng.normal());
  for (int i = 0; i < 32; ++i) {
    x[32 + i] = 0;
    x[64 + i] *= 1e-38f;  // a step would be subnormal: the block counts as zero
    x[96 + i] *= 1e37f;
  }
  for (const KernelSet* set : kernel_sets()) {
    std::int8_t q[256];
    float d[8];
    std::int32_t correction[8];
    set->quantise(x.data(), 8, 1, q, d, correction);
    for (int b = 0; b < 8; ++b) {
      std::int32_t sum = 0;
      for (int i = 0; i < 32; ++i) {
        const int at = 32 * b + i;
        sum += q[at];
        EXPECT_LE(std::abs(double{x[at]} - double{d[b]} * q[at]), b == 2 ? 1e-36 : d[b] * (0.5 + 127 * 0x1p-22)) << set->name;
      }
      EXPECT_EQ(correction[b], -8 * sum);
    }
    EXPECT_EQ(d[1], 0.0f);
    EXPECT_EQ(d[2], 0.0f);
  }
}

KernelCall sample_call(const std::vector<float>& logits, float uniform, float temperature, std::uint32_t top_k, float top_p) {
  KernelCall call;
  call.in = {make_view({1, static_cast<std::uint32_t>(logits.size()), 0}, Format::f32), make_view({1, 0, 0}, Format::f32)};
  std::copy(logits.begin(), logits.end(), call.in[0].as<float>());
  call.in[1].as<float>()[0] = uniform;
  call.op = ops::Sample{temperature, top_k, top_p};
  return call;
}

std::int32_t token(const KernelCall& call) { return std::get<TokenChoice>(ComputeFunction().execute(call)).tokens.at(0); }

TEST(Sample, greedy_takes_the_lowest_id_of_a_tie) { EXPECT_EQ(token(sample_call({1, 3, 2, 3}, 0.9f, 0, 0, 1)), 1); }

TEST(Sample, cuts_keep_the_most_probable_and_ties_prefer_the_lower_id) {
  std::map<std::int32_t, int> drawn;
  for (int i = 0; i < 100; ++i) ++drawn[token(sample_call({2, 2, 2, 0}, static_cast<float>(i) / 100, 1, 2, 1))];
  EXPECT_EQ(drawn, (std::map<std::int32_t, int>{{0, 50}, {1, 50}}));
  // Probabilities 0.64, 0.24, 0.09, 0.03: a mass of 0.7 keeps two.
  for (int i = 0; i < 100; ++i) EXPECT_LT(token(sample_call({3, 2, 1, 0}, static_cast<float>(i) / 100, 1, 0, 0.7f)), 2);
}

TEST(Sample, draws_follow_the_softmax) {
  const std::vector<float> logits{0.3f, -1.0f, 1.2f, 0.0f, 0.7f};
  std::vector<int> drawn(5);
  const int n = 10000;
  for (int i = 0; i < n; ++i) ++drawn[token(sample_call(logits, (static_cast<float>(i) + 0.5f) / n, 0.8f, 0, 1))];
  double total = 0;
  for (const float l : logits) total += std::exp(l / 0.8);
  for (int t = 0; t < 5; ++t)
    EXPECT_NEAR(drawn[t], n * std::exp(logits[t] / 0.8) / total, 2) << t;  // a grid of uniforms: each border moves one
}

TEST(Bench, smoke_run_has_limits_and_hashes_and_repeats_its_outputs) {
  VirtualExecutor clock;
  BenchOptions options;
  options.smoke = true;
  const std::vector<BenchRow> first = bench_kernels(options, clock), second = test::few_cases() ? first : bench_kernels(options, clock);
  ASSERT_EQ(first.size(), second.size());
  ASSERT_FALSE(first.empty());
  std::size_t hashes = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].result_hash, second[i].result_hash) << first[i].name;
    EXPECT_GT(first[i].value, 0) << first[i].name;
    hashes += !first[i].result_hash.empty();
  }
  EXPECT_EQ(hashes, 136u + 172u + 8u + 16u + 4u + 6u);
}

}  // namespace
}  // namespace vitro
