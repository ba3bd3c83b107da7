#include "hw_models/npu/kernels.hpp"

#include <gmock/gmock.h>

#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

using testing::HasSubstr;

ParamTable table(std::map<std::string, double, std::less<>> values) { return {"npu.kernels", std::move(values)}; }

TEST(HexagonKernels, what_it_lacks_is_priced_generally_and_reported) {
  NpuBench bench(phone());
  HexagonKernels kernels(table({{"hmx.dma.float.q4_0.packets_per_weight", 0.5}, {"hvx.l2fetch.lut.q4_0.threads", 2}}), bench.parts());
  const KernelCost known = kernels.find("float", "q4_0"), other = kernels.find("float", "q6_k"), lut = kernels.find("lut", "q4_0");
  EXPECT_TRUE(known.from_table && lut.from_table);
  EXPECT_FALSE(other.from_table);
  EXPECT_EQ(kernels.find("float", "q4_0").id, known.id);
  EXPECT_TRUE(kernels[known.id].matrix);
  EXPECT_EQ(kernels[known.id].packets_per_weight, 0.5);
  EXPECT_EQ(kernels[known.id].threads, 4u);
  EXPECT_FALSE(kernels[other.id].matrix);
  EXPECT_EQ(kernels[other.id].threads, 1u);
  EXPECT_EQ(kernels[other.id].packets_per_mac, bench.parts().packets_per_mac);
  EXPECT_EQ(kernels[lut.id].path, Path::l2fetch);
  EXPECT_EQ(kernels[lut.id].threads, 2u);
}

TEST(HexagonKernels, a_look_up_costs_what_vlut16_does) {
  NpuBench bench(phone());
  HexagonKernels kernels(table({}), bench.parts());
  EXPECT_NEAR(1 / kernels[kernels.find("lut", "q4_0").id].packets_per_lookup, 256, 1e-9);  // 128 of an instruction, two in a packet
}

TEST(HexagonKernels, a_second_table_adds_entries_and_changes_none) {
  NpuBench bench(phone());
  HexagonKernels kernels(table({{"hmx.dma.fused.w4.packets_per_weight", 0.5}}), bench.parts(),
                         table({{"hmx.dma.fused.w4.packets_per_weight", 9}, {"hmx.dma.fused.w2.packets_per_weight", 0.25}}));
  EXPECT_EQ(kernels[kernels.find("fused", "w4").id].packets_per_weight, 0.5);
  EXPECT_EQ(kernels[kernels.find("fused", "w2").id].packets_per_weight, 0.25);
}

// Files of users may say `fused` of either kind of two-level dequantisation, in prices and in methods.
TEST(HexagonKernels, fused_is_still_the_name_of_both_kinds) {
  NpuBench bench(phone());
  HexagonKernels kernels(table({{"hmx.dma.two_level.w2g64.packets_per_weight", 0.05},
                                {"hmx.dma.scaled_tables.w2g64.packets_per_weight", 0.03},
                                {"hmx.dma.scaled_tables.q4_0.packets_per_weight", 0.02}}),
                         bench.parts());
  EXPECT_EQ(kernels[kernels.find("fused", "w2g64").id].packets_per_weight, 0.05);
  EXPECT_EQ(kernels[kernels.find("fused", "q4_0").id].packets_per_weight, 0.02);
  EXPECT_EQ(kernels[kernels.find("scaled_tables", "w2g64").id].packets_per_weight, 0.03);
  EXPECT_FALSE(kernels.find("two_level", "q4_0").from_table);
  EXPECT_FALSE(kernels.find("fused", "w3g64").from_table);
}

// The tile is the device's: less TCM, fewer rows; never more than the kernel was counted with.
TEST(HexagonKernels, tiles_fit_the_device) {
  NpuBench bench(phone());
  HexagonParameters parts = bench.parts();
  const ParamTable counted = table({{"hvx.dma.lut.w4g64.tile_rows", 1280}, {"hvx.dma.lut.w4g64.tile_columns", 256}});
  const auto tile = [&](const HexagonParameters& of) {
    HexagonKernels kernels(counted, of);
    return kernels[kernels.find("lut", "w4g64").id];
  };
  EXPECT_EQ(tile(parts).tile_rows, 1280u);
  parts.tcm = 2 * MiB;
  const Kernel small = tile(parts);
  EXPECT_LT(small.tile_rows, 512u);
  EXPECT_EQ(small.tile_rows % parts.vector_bytes, 0u);
  EXPECT_EQ(small.tile_columns, 256u);
  parts.tcm = 64 * MiB;
  EXPECT_EQ(tile(parts).tile_rows, 1280u);
}

TEST(HexagonKernels, weights_in_the_form_of_the_matrix_unit_need_no_vector_work) {
  NpuBench bench(phone());
  HexagonKernels kernels(table({}), bench.parts());
  const KernelCost native = kernels.find("native", "w4g128");
  EXPECT_TRUE(native.from_table);
  EXPECT_TRUE(kernels[native.id].matrix);
  EXPECT_EQ(kernels[native.id].packets_per_weight, 0);
}

TEST(HexagonKernels, mistakes_are_named) {
  NpuBench bench(phone());
  const auto message = [&](const std::string& key, double value = 1) -> std::string {
    try {
      HexagonKernels(table({{key, value}}), bench.parts());
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "(no error)";
  };
  EXPECT_THAT(message("hxm.dma.float.f16.bits"),
              HasSubstr("npu.kernels.hxm.dma.float.f16.bits: is not known (expected a name that starts with hmx or hvx"));
  EXPECT_THAT(message("hmx.mail.float.f16.bits"), HasSubstr("vector_load"));
  EXPECT_THAT(message("float.f16"), HasSubstr("unit.path.variant.format.quantity"));
  EXPECT_THAT(message("hmx.dma.float.f16.bits", 12), HasSubstr("16, 8 or 4"));
  EXPECT_THAT(message("hmx.dma.float.f16.packets_per_mac"), HasSubstr("packets_per_mac on hvx"));
  EXPECT_THAT(message("hmx.dma.int8.q8_0.packets_per_sum"),
              HasSubstr("hmx.dma.int8.q8_0.packets_per_sum: is of products by blocks (expected bits: 8"));
  EXPECT_THAT(message("hmx.dma.int8.q8_0.packets_per_block"), HasSubstr("by blocks (expected packets_per_sum beside it"));
}

}  // namespace
}  // namespace vitro::hw
