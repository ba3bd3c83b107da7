#include "engine/ops/product_contract.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

constexpr AskedContracts kW4A16{variant::kInt8, VariantId::none, variant::kHmx};

VariantId of(const AskedContracts& asked, ProductOf by, Format format = Format::q4_0, Layout layout = Layout::rows) {
  return product_contract(asked, by, format, layout);
}

TEST(ProductContract, is_that_of_the_unit) {
  EXPECT_EQ(of(kW4A16, {}), variant::kInt8);
  EXPECT_EQ(of(kW4A16, {.accelerator = true}), variant::kHmx);
  EXPECT_EQ(of({variant::kInt8}, {.accelerator = true}), variant::kInt8) << "none of its own";
}

TEST(ProductContract, of_prompts_comes_first_whoever_carries_them_out) {
  const AskedContracts asked{variant::kInt8, variant::kInt8Rows, variant::kHmx};
  for (const bool accelerator : {false, true}) {
    EXPECT_EQ(of(asked, {.prompt = true, .accelerator = accelerator}, Format::w(2, 64)), variant::kInt8Rows);
  }
  EXPECT_EQ(of(asked, {.accelerator = true}, Format::w(2, 64)), variant::kHmx) << "and of no other steps";
}

TEST(ProductContract, that_weights_lack_is_the_next_one) {
  const AskedContracts tables{variant::kInt8, variant::kInt8Rows, variant::kInt8Tables};
  EXPECT_EQ(of(tables, {.prompt = true, .accelerator = true}, Format::q8_0), variant::kInt8);
  EXPECT_EQ(of(tables, {.prompt = true, .accelerator = true}, Format::f16), variant::kFloat);
  EXPECT_EQ(of({variant::kReference}, {}, Format::f16), variant::kReference);
  EXPECT_EQ(of({variant::kHmx}, {}, Format::w(2, 64), Layout::lut), variant::kHmx);
}

}  // namespace
}  // namespace vitro
