// The closed form against the pipeline, event by event.
#include <gtest/gtest.h>

#include "tests/effort.hpp"
#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

double ratio_of(const Node& device, const std::function<Work(ComputeModel&)>& work_of) {
  NpuBench flow(device, "flow"), detailed(device, "detailed");
  const double closed = to_seconds(flow.call(work_of(flow.model())));
  return closed / to_seconds(detailed.call(work_of(detailed.model())));
}

class Twins : public testing::TestWithParam<Weights> {};

TEST_P(Twins, agree_on_products_within_5_percent) {
  using Sizes = std::vector<std::uint32_t>;
  const Node device = phone();
  const Sizes rows = test::all_or_few<Sizes>({1, 4, 32, 33, 64, 128, 320, 512}, {1, 33, 512});
  const Sizes widths = test::all_or_few<Sizes>({1024, 2048, 4096, 11008, 14336}, {1024, 11008});
  double worst = 1;
  for (const std::uint32_t m : rows) {
    for (const std::uint32_t n : widths) {
      for (const std::uint32_t k : widths) {
        const double ratio = ratio_of(device, [&](ComputeModel& model) { return product(model, GetParam(), m, n, k); });
        EXPECT_NEAR(ratio, 1, 0.05) << m << " x " << n << " x " << k;
        if (std::abs(ratio - 1) > std::abs(worst - 1)) worst = ratio;
      }
    }
  }
  RecordProperty("worst_ratio", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Formats, Twins, testing::Values(kF16, kQ8, kQ4),
                         [](const testing::TestParamInfo<Weights>& format) { return format.param.format; });

TEST(TwinsOfOtherWork, agree_on_operators_without_weights) {
  for (const Bytes read : {Bytes{4096}, 100 * KiB, 3 * MiB, 64 * MiB}) {
    for (const Bytes written : {Bytes{0}, read / 2, read}) {
      for (const std::uint64_t per_byte : {0, 1, 4}) {
        const double ratio = ratio_of(phone(), [&](ComputeModel&) {
          Work work;
          work.read_bytes = read;
          work.written_bytes = written;
          work.elementwise = per_byte * read;
          return work;
        });
        EXPECT_NEAR(ratio, 1, 0.05) << read << " B in, " << written << " B out, " << per_byte << " operations per byte";
      }
    }
  }
}

TEST(TwinsOfOtherWork, agree_on_attention_and_on_operands_in_tcm) {
  const auto attention = [](ComputeModel& model) {
    Work work;
    work.kernel = model.kernel("float", "f16").id;
    work.rows = 64;
    work.read_bytes = 32 * MiB;
    work.written_bytes = MiB;
    work.macs = 500'000'000;
    work.elementwise = 30'000'000;
    return work;
  };
  EXPECT_NEAR(ratio_of(phone(), attention), 1, 0.05);
  for (const char* variant : {"float", "reference"}) {
    EXPECT_NEAR(ratio_of(phone(), [&](ComputeModel& model) { return product_in_tcm(model, variant); }), 1, 0.05);
  }
}

TEST(TwinsOfOtherWork, agree_on_kernels_of_vector_threads_by_every_path) {
  for (const std::string path : {"dma", "l2fetch", "vector_load"}) {
    const Node device = phone("npu.kernels: {hvx: {" + path + ": {float: {q4_0: {packets_per_mac: 0.02, packets_per_weight: 0.01}}}}}");
    for (const std::uint32_t n : {1024u, 4096u, 14336u}) {
      const double ratio = ratio_of(device, [&](ComputeModel& model) { return product(model, kQ4, 1, n, 4096); });
      EXPECT_NEAR(ratio, 1, 0.05) << path << ", " << n;
    }
  }
}

TEST(TwinsOfOtherWork, the_detailed_one_repeats_itself_to_the_picosecond) {
  const auto hash = [] {
    NpuBench bench(phone(), "detailed");
    for (const std::uint32_t m : {1u, 100u}) bench.call(product(bench.model(), kQ4, m, 4096, 14336));
    return bench.hash().value();
  };
  EXPECT_EQ(hash(), hash());
}

}  // namespace
}  // namespace vitro::hw
