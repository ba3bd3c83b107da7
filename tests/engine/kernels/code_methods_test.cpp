#include "engine/kernels/code_methods.hpp"

#include <gtest/gtest.h>

#include "engine/base/check.hpp"
#include "engine/kernels/common/kernel_set.hpp"

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

}  // namespace
}  // namespace vitro
