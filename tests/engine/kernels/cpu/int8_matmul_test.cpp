// What int8 products keep from one call to the next.
#include "engine/kernels/cpu/int8_matmul.hpp"

#include <gtest/gtest.h>

#include "engine/kernels/compute_function.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro::test {
namespace {

std::vector<std::byte> result(const KernelSet& set, const KernelCall& call) {
  const KernelCall own = with_own_output(call);
  ComputeFunction({std::string(set.name)}).execute(own);
  return bytes_of(own.out[0]);
}

KernelCall numbered(KernelCall call, std::uint32_t number) {
  call.activations = number;
  return call;
}

struct Case {
  Format format;
  Layout layout;
};
const Case kCases[] = {{Format::q4_0, Layout::rows},        {Format::q4_0, Layout::tiled},         {Format::q8_0, Layout::rows},
                       {Format::q4_k, Layout::rows},        {Format::q6_k, Layout::tiled},         {Format::iq4_nl, Layout::rows},
                       {Format::w(2, 64, 'z'), Layout::lut}, {Format::w(2, 64, 'z'), Layout::tiled}, {Format::w4_outliers, Layout::rows}};

// Other weights, other activations and other formats in between.
TEST(Int8Matmul, activations_with_a_number_give_the_products_of_those_without) {
  Rng rng(51);
  for (const KernelSet* set : kernel_sets()) {
    std::vector<KernelCall> calls;
    for (const Case& c : kCases) {
      for (const std::uint32_t batch : {1u, 3u, 9u}) {
        const KernelCall first = matmul_call(rng, c.format, c.layout, variant::kInt8, {32, 512, batch});
        KernelCall second = matmul_call(rng, c.format, c.layout, variant::kInt8, {16, 512, batch});
        second.in[1] = first.in[1];
        const std::uint32_t number = number_activations();
        calls.insert(calls.end(), {numbered(first, number), numbered(second, number)});
      }
    }
    for (int i = 0; i < 300; ++i) {
      const KernelCall& call = calls[rng.below(calls.size())];
      ASSERT_EQ(result(*set, call), result(*set, numbered(call, 0))) << set->name << " " << to_string(call.in[0].format) << " " << i;
      ASSERT_EQ(result(*set, call), result(*set, call)) << "what was kept is used, and stays as it was";
    }
  }
}

// Seen by breaking the promise of a number.
TEST(Int8Matmul, activations_with_a_number_are_quantised_once) {
  Rng rng(52);
  for (const KernelSet* set : kernel_sets()) {
    const std::uint32_t number = number_activations();
    const KernelCall call = numbered(matmul_call(rng, Format::q4_0, Layout::rows, variant::kInt8, {32, 512, 2}), number);
    const std::vector<std::byte> expected = result(*set, call);
    fill(call.in[1], rng, 1);
    EXPECT_EQ(result(*set, call), expected) << set->name;
    EXPECT_NE(result(*set, numbered(call, number_activations())), expected) << set->name;
  }
}

}  // namespace
}  // namespace vitro::test
