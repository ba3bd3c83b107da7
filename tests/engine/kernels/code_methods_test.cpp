#include "engine/kernels/code_methods.hpp"

#include <gtest/gtest.h>

#include "engine/base/check.hpp"
#include "engine/base/config.hpp"
#include "engine/kernels/common/kernel_set.hpp"
#include "tests/source_path.hpp"

namespace vitro {
namespace {

TEST(CodeMethods, every_set_of_this_machine_and_its_own_name_have_an_answer) {
  for (const KernelSet* set : kernel_sets()) {
    EXPECT_TRUE(looks_up_faster(set->name, 1)) << set->name << ": a table of 16 sums serves four columns of a plane at once";
    EXPECT_FALSE(looks_up_faster(set->name, 8)) << set->name << ": codes that lie in bytes have no planes";
  }
  for (std::uint32_t bits = 1; bits <= 8; ++bits) EXPECT_EQ(looks_up_faster("auto", bits), looks_up_faster(kernel_set("auto").name, bits));
}

TEST(CodeMethods, four_bits_are_looked_up_by_plain_neon_alone) {
  for (const char* set : {"portable", "avx2", "avx512", "neon-dotprod", "neon-i8mm"}) EXPECT_FALSE(looks_up_faster(set, 4)) << set;
  EXPECT_TRUE(looks_up_faster("neon", 4));
  EXPECT_THROW(looks_up_faster("sse2", 4), ConfigError);
}

TEST(CodeMethods, the_choice_on_neon_is_that_of_the_committed_prices) {
  for (const char* core : {"a710", "a715", "a720", "x2", "x3", "x4", "oryon"}) {
    const Node prices = load_yaml(test::source_path(std::string("configs/kernels/cpu-") + core + ".yaml"));
    const Node* rates = prices.find_path("macs_per_cycle.neon-i8mm.int8");
    ASSERT_NE(rates, nullptr) << core;
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      const std::string format = "w" + std::to_string(bits) + "g64z";
      const double dot = std::stod(rates->find(format)->text()), look_up = std::stod(rates->find(format + ".lut")->text());
      EXPECT_EQ(looks_up_faster("neon-i8mm", bits), look_up > 1.05 * dot) << core << " " << bits;
      EXPECT_EQ(looks_up_faster("neon-dotprod", bits), looks_up_faster("neon-i8mm", bits)) << "one row takes the same instructions";
    }
  }
}

}  // namespace
}  // namespace vitro
