// The published microbenchmarks of Hexagon V75, each by simulated requests, and without the mechanism behind it.
#include <gtest/gtest.h>

#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

constexpr double kWithin = 0.03;

double read(const Node& device, Path path, std::uint32_t threads) {
  return NpuBench(device).read_bandwidth({path, threads, path == Path::dma ? MiB : 64 * KiB});
}

double gemm(const Node& device, const std::string& variant) {
  NpuBench bench(device);
  const Work work = product_in_tcm(bench.model(), variant);
  return 2.0 * static_cast<double>(work.macs) / to_seconds(bench.call(work));
}

// Decode of a 7B model in 4 bits: the matrix of PowerInfer-2 Fig. 3(a), one row, on either fidelity.
double stream(const Node& device, std::string_view fidelity) {
  NpuBench bench(device, fidelity);
  const Work work = product(bench.model(), kQ4, 1, 14336, 4096);
  return static_cast<double>(work.read_bytes + work.written_bytes) / to_seconds(bench.call(work));
}

double lookups(const Node& device, LookupTable table, std::uint32_t bits) {
  return lookups_per_instruction(NpuBench(device).parts(), table, bits);
}

struct Figure {
  std::string id;
  double low, high;  // published; equal when it is one number
  double (*measure)(const Node& device);
  std::string without;  // its mechanism
};

void PrintTo(const Figure& figure, std::ostream* out) { *out << figure.id; }

const Figure kFigures[] = {
    {"tman_bw_vectorload_1t", 5e9, 5e9, [](const Node& d) { return read(d, Path::vector_load, 1); }, "npu.loads_in_flight: 1000"},
    {"tman_bw_vectorload_4t", 20e9, 20e9, [](const Node& d) { return read(d, Path::vector_load, 4); }, "npu.memory_latency: 1 ns"},
    {"tman_bw_l2fetch_1t", 26e9, 26e9, [](const Node& d) { return read(d, Path::l2fetch, 1); }, "npu.memory_latency: 1 ns"},
    {"tman_bw_l2fetch_4t", 32e9, 32e9, [](const Node& d) { return read(d, Path::l2fetch, 4); }, "npu.l2_bandwidth: 1000 GB/s"},
    {"tts_hvx_mem_bw", 26e9, 26e9, [](const Node& d) { return read(d, Path::l2fetch, 1); }, "npu.fetches_in_flight: 1000"},
    {"tts_dma_mem_bw", 60e9, 60e9, [](const Node& d) { return read(d, Path::dma, 1); },
     "npu.dma_bandwidth: 1000 GB/s, dram.bandwidth: 1000 GB/s"},
    {"tman_bw_dma_1t", 59e9, 59e9, [](const Node& d) { return read(d, Path::dma, 1); },
     "npu.dma_bandwidth: 1000 GB/s, dram.bandwidth: 1000 GB/s"},
    {"tman_bw_dma_4t", 59e9, 59e9, [](const Node& d) { return read(d, Path::dma, 4); },
     "npu.dma_bandwidth: 1000 GB/s, dram.bandwidth: 1000 GB/s"},
    {"pi2_membw_npu_only", 56e9, 56e9, [](const Node& d) { return stream(d, "flow"); }, "npu.hand_over_cycles: 0"},
    {"pi2_membw_npu_only_detailed", 56e9, 56e9, [](const Node& d) { return stream(d, "detailed"); }, "npu.hand_over_cycles: 0"},
    {"tts_hmx_fp16_gflops", 12032.54e9, 12032.54e9, [](const Node& d) { return gemm(d, "float"); }, "npu.kernels: {kind: assumed}"},
    {"tts_hvx_fp16_gflops", 32.93e9, 32.93e9, [](const Node& d) { return gemm(d, "reference"); }, "npu.clock: 4 GHz"},
    {"tts_vgather_latency", 24, 48, [](const Node& d) { return NpuBench(d).gather_packets(1000, 64 * KiB); }, "npu.gather_packets: 0"},
    {"tman_vlut16_cpi", 0.5, 0.5, [](const Node& d) { return NpuBench(d).lookup_cycles(4096); }, "npu.vliw_slots: 1"},
    {"tman_vlut16_a8_lookups", 256, 256, [](const Node& d) { return lookups(d, {16, 16}, 8); }, "npu.hvx_bits: 512"},
    {"tman_vlut16_a16_lookups", 128, 128, [](const Node& d) { return lookups(d, {16, 16}, 16); }, "npu.hvx_bits: 512"},
    {"tman_vlut32_a8_lookups", 128, 128, [](const Node& d) { return lookups(d, {32, 8}, 8); }, "npu.hvx_bits: 512"},
    {"tman_vlut32_a16_lookups", 64, 64, [](const Node& d) { return lookups(d, {32, 8}, 16); }, "npu.hvx_bits: 512"},
};

class Figures : public testing::TestWithParam<Figure> {};

TEST_P(Figures, comes_out_of_simulated_requests) {
  const double value = GetParam().measure(phone());
  EXPECT_GE(value, GetParam().low * (GetParam().low == GetParam().high ? 1 - kWithin : 1));
  EXPECT_LE(value, GetParam().high * (GetParam().low == GetParam().high ? 1 + kWithin : 1));
}

TEST_P(Figures, fails_without_its_mechanism) {
  const double value = GetParam().measure(phone(GetParam().without));
  EXPECT_TRUE(value < GetParam().low * (1 - kWithin) || value > GetParam().high * (1 + kWithin)) << value;
}

INSTANTIATE_TEST_SUITE_P(V75, Figures, testing::ValuesIn(kFigures), [](const auto& figure) { return figure.param.id; });

TEST(NpuMemory, small_and_scattered_blocks_waste_the_dma_engine) {
  const auto rate = [](Bytes block, std::uint32_t rows) { return NpuBench(phone()).read_bandwidth({Path::dma, 1, block, rows}); };
  double last = 0;
  for (Bytes block = KiB; block <= 4 * MiB; block *= 2) {
    const double now = rate(block, 1);
    EXPECT_GT(now, last) << block;
    EXPECT_LT(rate(block, 16), now) << block;
    last = now;
  }
  EXPECT_LT(rate(KiB, 1), 0.5 * last);
}

TEST(NpuMemory, threads_share_what_comes_through_l2_but_do_not_slow_each_other_below_it) {
  const auto loads = [](std::uint32_t threads) { return NpuBench(phone()).read_bandwidth({Path::vector_load, threads, 64 * KiB}); };
  EXPECT_NEAR(loads(2), 2 * loads(1), 1e7);
  EXPECT_NEAR(loads(64), 32e9, 0.01 * 32e9);
}

}  // namespace
}  // namespace vitro::hw
