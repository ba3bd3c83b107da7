#include "hw_models/npu/plan.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "hw_models/npu/hexagon_detailed.hpp"
#include "hw_models/npu/tcm.hpp"
#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

using testing::HasSubstr;

struct Planned {
  explicit Planned(const std::string& changes = "") : bench(phone(changes)), planner(bench.parts()) {
    hmx.matrix = true;
    hmx.threads = 4;
    hmx.packets_per_weight = 0.03;
  }
  TilePlan plan(const Weights& weights, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    return planner.plan(product(bench.model(), weights, m, n, k), hmx);
  }
  NpuBench bench;
  TilePlanner planner;
  Kernel hmx;
};

TEST(TilePlan, what_it_keeps_fits_into_tcm_whatever_the_shape) {
  Rng rng(7);
  for (const std::string tcm : {"512 KiB", "2 MiB", "8 MiB"}) {
    Planned planned("npu.tcm: " + tcm);
    int refused = 0;
    for (int i = 0; i < 300; ++i) {
      const auto draw = [&](std::uint32_t most) { return static_cast<std::uint32_t>(32 * (1 + rng.below(most / 32))); };
      const std::uint32_t m = 1 + static_cast<std::uint32_t>(rng.below(600)), n = draw(16384), k = draw(16384);
      const Weights& format = i % 2 == 0 ? kQ4 : kF16;
      try {
        const TilePlan plan = planned.plan(format, m, n, k);
        TcmAllocator allocator(planned.bench.parts().tcm, planned.bench.parts().vector_bytes);
        for (const Bytes bytes : plan.buffers) {
          EXPECT_TRUE(bytes == 0 || allocator.allocate(bytes)) << m << " x " << n << " x " << k;
        }
        const Bytes weights = product(planned.bench.model(), format, m, n, k).weight_bytes;
        EXPECT_NEAR(static_cast<double>(plan.read()), static_cast<double>(plan.passes * weights + Bytes{4} * m * k), 1e-4 * weights);
        EXPECT_NEAR(static_cast<double>(plan.written()), 4.0 * m * n, 8.0 * plan.passes);
      } catch (const RunError&) {
        ++refused;
      }
    }
    EXPECT_EQ(refused == 0, tcm == "8 MiB") << tcm;
  }
}

TEST(TilePlan, less_tcm_means_smaller_tiles_then_more_passes_over_the_weights_then_refusal) {
  const auto in = [](const std::string& tcm) { return Planned("npu.tcm: " + tcm).plan(kQ4, 256, 4096, 4096); };
  const TilePlan all = in("8 MiB"), less = in("3 MiB"), least = in("2 MiB");
  EXPECT_EQ(all.passes, 1u);
  EXPECT_GT(less.pass.groups, all.pass.groups);
  EXPECT_GT(least.passes, 1u);
  EXPECT_GT(least.read(), all.read());
  try {
    in("256 KiB");
    FAIL();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("depth 4096"), HasSubstr("of TCM"), HasSubstr("256.00 KiB")));
  }
}

// Look-ups stream tiles of the layout: a thread has whole vectors of rows, and a part of the depth at a time, for which its tables stay.
TEST(TilePlan, look_ups_stream_the_tiles_of_their_kernel) {
  Planned planned;
  Kernel lut;
  lut.threads = 4;
  lut.packets_per_mac = 0.014;
  lut.tile_rows = 1280;
  lut.tile_columns = 256;
  const HexagonParameters& parts = planned.bench.parts();
  const auto plan = [&](std::uint32_t n, std::uint32_t k) {
    Work work = product(planned.bench.model(), kQ4, 1, n, k);
    work.conversions = 0;  // what the kernel takes alone
    return planned.planner.plan(work, lut);
  };
  const TilePlan square = plan(4096, 4096);
  EXPECT_EQ(square.pass.groups, 16u);                  // 1024 rows for each thread, 16 parts of the depth
  EXPECT_EQ(plan(14336, 4096).pass.groups, 3u * 16u);  // 28 vectors of rows for a thread, ten in a tile
  EXPECT_EQ(square.read(), product(planned.bench.model(), kQ4, 1, 4096, 4096).weight_bytes + 4096 * 4);
  EXPECT_EQ(square.written(), Bytes{4 * 4096});
  const auto vectors = [&](const TilePlan& p) { return p.pass.full.vector * p.pass.groups * parts.clock; };
  EXPECT_NEAR(vectors(square), 0.014 * 4096 * 4096 / 4, 1);  // 32 vectors of rows, eight for each thread
  // A row more is a vector more for one thread, and the others wait for it.
  EXPECT_NEAR(vectors(plan(4097, 4096)), 0.014 * 9 * 128 * 4096, 1);
  EXPECT_NEAR(vectors(plan(32, 4096)), 0.014 * 128 * 4096, 1);
  // A smaller tile is less in a group, however much a transfer could bring.
  lut.tile_rows = 128;
  lut.tile_columns = 64;
  EXPECT_EQ(plan(4096, 4096).pass.groups, 8u * 64u);
}

// 15 times between 16 parts of the depth, each of 4096 sums is stored and loaded again.
TEST(TilePlan, spilled_sums_take_room_in_tcm_or_loads_and_stores_elsewhere) {
  constexpr double kMoved = 2.0 * 4 * 4096 * 15;
  const auto plan = [](const std::string& changes) {
    Planned planned(changes);
    Kernel lut;
    lut.threads = 4;
    lut.packets_per_mac = 0.007;
    lut.tile_rows = 1280;
    lut.tile_columns = 256;
    Work work = product(planned.bench.model(), kQ4, 1, 4096, 4096);
    work.conversions = 0;
    return planned.planner.plan(work, lut);
  };
  const auto vector = [](const TilePlan& p) { return p.pass.full.vector * p.pass.groups; };
  const auto room = [](const TilePlan& p) { return std::accumulate(p.buffers.begin(), p.buffers.end(), Bytes{0}); };
  const TilePlan tcm = plan("npu.spill: tcm"), l2 = plan("npu.spill: l2"), dram = plan("npu.spill: dram");
  EXPECT_EQ(tcm, plan(""));
  EXPECT_EQ(room(tcm) - room(l2), Bytes{4 * 4096});
  EXPECT_EQ(room(dram), room(l2));
  const HexagonParameters parts = Planned("npu.spill: l2").bench.parts();
  EXPECT_NEAR(vector(l2) - vector(tcm), kMoved / (4 * 8 * 128 / 30e-9), 1e-8);
  EXPECT_NEAR(vector(dram) - vector(tcm), kMoved / parts.path_bandwidth(Path::vector_load, 4), 1e-7);
  EXPECT_EQ(l2.read() + l2.written(), tcm.read() + tcm.written());
  EXPECT_NEAR(static_cast<double>(dram.read() + dram.written() - tcm.read() - tcm.written()), kMoved, 100);
  // An L2 that can not hold them is no help.
  EXPECT_EQ(vector(plan("npu.spill: l2, npu.l2: 8 KiB")), vector(plan("npu.spill: dram, npu.l2: 8 KiB")));
  EXPECT_THROW(plan("npu.spill: flash"), ConfigError);
}

TEST(TilePlan, operands_that_lie_in_tcm_take_their_room) {
  Planned planned;
  Work work = product(planned.bench.model(), kQ4, 256, 4096, 4096);
  const std::uint32_t alone = planned.planner.plan(work, planned.hmx).passes;
  work.tcm_bytes = 7 * MiB;
  EXPECT_GT(planned.planner.plan(work, planned.hmx).passes, alone);
  work.tcm_bytes = 9 * MiB;
  EXPECT_THROW(planned.planner.plan(work, planned.hmx), RunError);
}

TEST(TilePlan, narrower_operands_use_the_matrix_unit_for_less_time) {
  Planned planned;
  const auto matrix = [&](std::uint32_t bits) {
    planned.hmx.bits = bits;
    return planned.plan(kQ4, 32, 32, 4096).pass.full.matrix;
  };
  EXPECT_GT(matrix(16), 1.9 * matrix(8));
  EXPECT_GT(matrix(8), 1.9 * matrix(4));
}

// Six query heads share a head of keys and values, as in Qwen2.5-1.5B: a row fills 6 of a tile's 32.
TEST(TilePlan, rows_of_a_sequence_and_heads_of_its_group_share_tiles_and_sequences_do_not) {
  Planned planned;
  const auto matrix_per_row = [&](std::uint32_t sequences, std::uint32_t rows_of_each, std::uint32_t heads) {
    Work work;
    work.rows = sequences * rows_of_each;
    work.sequence_rows = rows_of_each;
    work.query_heads = heads;
    work.macs = std::uint64_t{work.rows} * heads * 2 * 128 * 4096;
    work.read_bytes = MiB;
    const Pass pass = planned.planner.plan(work, planned.hmx).pass;
    return pass.full.matrix * pass.groups / work.rows / heads;
  };
  const double full = matrix_per_row(1, 32, 6);
  for (const std::uint32_t sequences : {1u, 2u, 16u}) {
    EXPECT_NEAR(matrix_per_row(sequences, 1, 6) / full, 32.0 / 6, 1e-9) << sequences << " sequences";
  }
  EXPECT_NEAR(matrix_per_row(16, 1, 1) / full, 32, 1e-9) << "heads with keys and values of their own";
  EXPECT_NEAR(matrix_per_row(1, 6, 6) / full, 64.0 / 36, 1e-9) << "36 rows need two tiles";
}

TEST(TilePlan, scores_pay_for_their_exponential) {
  Planned planned;
  Work work;
  work.macs = 2 * 128 * 4096;
  work.elements = 4096;
  Kernel table, polynomial;
  table.packets_per_element = 0.25;
  polynomial.packets_per_element = 0.75;
  const auto vector = [&](const Kernel* softmax) { return planned.planner.plan(work, planned.hmx, softmax).pass.full.vector; };
  const double packet = 1 / planned.bench.parts().clock / planned.hmx.threads;
  EXPECT_NEAR(vector(&table) - vector(nullptr), 0.25 * 4096 * packet, 1e-15);
  EXPECT_NEAR(vector(&polynomial) - vector(&table), 0.5 * 4096 * packet, 1e-15);
  table.gathers_per_element = 1;  // TCM carries them out one after the other
  EXPECT_NEAR(vector(&table) - vector(nullptr), std::max(0.25, planned.bench.parts().gather_packets) * 4096 * packet, 1e-15);
}

TEST(DetailedHexagon, gives_tcm_back_when_a_call_ends) {
  const Node device = phone();
  NpuBench bench(device, "detailed");
  const auto& model = dynamic_cast<DetailedHexagon&>(bench.model());
  bench.model().submit(product(bench.model(), kQ4, 64, 4096, 4096), [] {});
  Bytes most = 0;
  while (!bench.loop().empty()) {
    bench.loop().step();
    most = std::max(most, model.tcm().used());
  }
  EXPECT_GT(most, Bytes{64} * 4096 * 2);
  EXPECT_EQ(model.tcm().used(), 0u);
}

TEST(DetailedHexagon, stages_overlap) {
  const auto seconds = [](const std::string& changes) {
    NpuBench bench(phone(changes), "detailed");
    return to_seconds(bench.call(product(bench.model(), kQ4, 64, 8192, 4096)));
  };
  // Memory, vector and matrix work of about the same length: one after the other they would take the sum.
  const double all = seconds(""), memory = seconds(
                                      "npu.hmx_clock: 1000 GHz, npu.packets_per_conversion: 0, npu.kernels: {hmx: {dma: "
                                      "{float: {q4_0: {packets_per_weight: 0}}}}}");
  const double matrix = seconds(
      "npu.dma_bandwidth: 10000 GB/s, dram.bandwidth: 10000 GB/s, npu.packets_per_conversion: 0, npu.kernels: "
      "{hmx: {dma: {float: {q4_0: {packets_per_weight: 0}}}}}");
  EXPECT_LT(all, 0.8 * (memory + matrix));
  EXPECT_GT(all, std::max(memory, matrix));
}

}  // namespace
}  // namespace vitro::hw
