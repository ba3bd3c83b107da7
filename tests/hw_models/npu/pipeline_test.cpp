// Stages that overlap (T-MAN 4.2), and look-up kernels: tables made once, sums that spill into TCM (T-MAN 4.3, 5).
#include <gmock/gmock.h>

#include "tests/effort.hpp"
#include "tests/hw_models/npu/device.hpp"

namespace vitro::hw {
namespace {

using testing::HasSubstr;

// Time during which a group is in both stages.
Picoseconds overlap(const std::vector<EventLoop::Span>& spans, std::string_view a, std::string_view b) {
  Picoseconds sum{0};
  for (const EventLoop::Span& x : spans) {
    for (const EventLoop::Span& y : spans) {
      if (x.name == a && y.name == b) sum += std::max(Picoseconds(0), std::min(x.end, y.end) - std::max(x.begin, y.begin));
    }
  }
  return sum;
}

struct Traced {
  explicit Traced(const std::string& changes, std::uint32_t rows = 256) {
    NpuBench bench(phone(changes), "detailed");
    bench.loop().trace_into(&spans);
    time = bench.call(product(bench.model(), kQ4, rows, 4096, 4096));
  }
  std::vector<EventLoop::Span> spans;
  Picoseconds time{0};
};

// Of two neighbours the slower one hides the other: with few rows dequantisation is slower than the DMA engine, with many the
// matrix unit is the slowest of all.
TEST(Pipeline, stages_overlap_in_the_trace_as_far_as_there_are_buffers) {
  const auto overlaps = [](const char* a, const char* b, std::uint32_t rows) {
    const Traced two("npu.buffers: 2", rows), one("npu.buffers: 1", rows), none("npu.buffers: 0", rows);
    EXPECT_GT(overlap(two.spans, a, b), two.time / 10) << a << " and " << b;
    EXPECT_EQ(overlap(one.spans, a, b), Picoseconds(0)) << a << " and " << b;
    EXPECT_EQ(overlap(none.spans, a, b), Picoseconds(0)) << a << " and " << b;
    EXPECT_LT(two.time, one.time);
    EXPECT_LT(one.time, none.time);
  };
  overlaps("in", "vector", 32);
  overlaps("vector", "matrix", 256);
  EXPECT_GT(overlap(Traced("npu.buffers: 1").spans, "in", "matrix"), Picoseconds(0));
  EXPECT_EQ(overlap(Traced("npu.buffers: 0").spans, "in", "matrix"), Picoseconds(0));
}

TEST(Pipeline, the_twins_agree_on_fewer_buffers) {
  for (const std::string buffers : {"npu.buffers: 0", "npu.buffers: 1"}) {
    for (const std::uint32_t m : {1u, 64u, 512u}) {
      NpuBench flow(phone(buffers), "flow"), detailed(phone(buffers), "detailed");
      const double ratio = to_seconds(flow.call(product(flow.model(), kQ4, m, 4096, 4096))) /
                           to_seconds(detailed.call(product(detailed.model(), kQ4, m, 4096, 4096)));
      EXPECT_NEAR(ratio, 1, 0.05) << buffers << ", " << m << " rows";
    }
  }
}

// A product whose operands are in TCM never waits; one row of weights from DRAM waits most of the time, at either fidelity; and memory
// that is ten times as fast changes the time but not what is computed.
TEST(Pipeline, what_is_computed_is_what_memory_has_no_part_in) {
  for (const char* fidelity : {"flow", "detailed"}) {
    NpuBench bench(phone(), fidelity);
    const Picoseconds in_tcm = bench.call(product_in_tcm(bench.model(), "float"));
    EXPECT_EQ(bench.model().computed(), in_tcm) << fidelity;
    const Picoseconds time = bench.call(product(bench.model(), kF16, 1, 4096, 4096));
    const Picoseconds computed = bench.model().computed();
    EXPECT_LT(computed, time / 2) << fidelity;
    EXPECT_GT(computed, Picoseconds(0));
    NpuBench fast(phone("npu.dma_bandwidth: 600 GB/s, dram.bandwidth: 596 GB/s"), fidelity);
    EXPECT_LT(fast.call(product(fast.model(), kF16, 1, 4096, 4096)), time);
    EXPECT_EQ(fast.model().computed(), computed) << fidelity;
    const Work prompt = product(bench.model(), kQ4, 512, 4096, 4096);
    const Picoseconds bound_by_stages = bench.call(prompt);
    EXPECT_GT(bench.model().computed(), bound_by_stages * 2 / 3) << fidelity;
  }
}

// What calls take is remembered: not beyond a change of the clock, and not of one call for another.
TEST(Pipeline, a_call_takes_what_it_takes_on_a_unit_that_has_seen_none) {
  const auto time = [](NpuBench& bench, std::uint32_t rows) { return bench.call(product(bench.model(), kQ4, rows, 1024, 1024)); };
  const auto fresh = [&](std::uint32_t rows, double clock) {
    NpuBench bench(phone(), "flow");
    bench.model().set_clock_scale(clock);
    return time(bench, rows);
  };
  NpuBench bench(phone(), "flow");
  const std::uint32_t step = test::all_or_few(32, 4 * 32);
  for (const double clock : {1.0, 0.5, 0.8}) {
    bench.model().set_clock_scale(clock);
    for (int round = 0; round < 2; ++round) {
      for (std::uint32_t rows = 32; rows <= 40 * 32; rows += step) ASSERT_EQ(time(bench, rows), fresh(rows, clock)) << rows << " rows";
    }
  }
  EXPECT_GT(fresh(1024, 0.5), fresh(1024, 1));
}

TEST(Pipeline, other_numbers_of_buffers_are_refused) {
  try {
    NpuBench bench(phone("npu.buffers: 3"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("npu.buffers: \"3\" (expected 0, 1 or 2)"));
  }
}

const std::string kTables =
    "npu.kernels: {hvx: {dma: {lut: {w2: {packets_per_mac: 0.001, packets_per_activation: 0.5, packets_per_sum: 0}}}}}";

Work look_up(ComputeModel& model, std::uint32_t m, std::uint32_t n, std::uint32_t k, bool precomputed) {
  Work work;
  work.kernel = model.kernel("lut", "w2").id;
  work.rows = m;
  work.columns = n;
  work.depth = k;
  work.group = 64;
  work.weight_bytes = Bytes{n} * k / 4;
  work.read_bytes = work.weight_bytes + (precomputed ? 0 : Bytes{4} * m * k);
  work.written_bytes = Bytes{4} * m * n;
  work.macs = std::uint64_t{m} * n * k;
  work.table_inputs = precomputed ? 0 : std::uint64_t{m} * k;
  work.table_bytes = Bytes{8} * m * k;
  work.row_runs = 1;
  return work;
}

TEST(LookUp, tables_that_are_there_save_their_making) {
  const auto seconds = [](bool precomputed) {
    NpuBench bench(phone(kTables));
    return to_seconds(bench.call(look_up(bench.model(), 1, 1024, 4096, precomputed)));
  };
  EXPECT_NEAR(seconds(false) - seconds(true), 4096 * 0.5 / 4 / 1e9, 2e-7);  // on four threads of 1 GHz, and 16 KiB of activations
}

TEST(LookUp, activations_become_int8_before_tables_are_made_of_them) {
  NpuBench bench(phone("npu.kernels: {hvx: {dma: {lut: {w2: {packets_per_mac: 0.001, packets_per_activation: 0.5, packets_per_sum: 0}}, "
                       "int8_activations: {g64: {packets_per_element: 0.25}}}}}"));
  const auto seconds = [&](bool rounds, std::uint64_t inputs) {
    Work work;
    work.kernel = bench.model().kernel("lut", "w2").id;
    work.read_bytes = 4 * 14336;
    work.table_inputs = inputs;
    work.rounds_activations = rounds;
    work.rounding = bench.model().kernel("int8_activations", "g64").id;
    return to_seconds(bench.call(work));
  };
  EXPECT_NEAR(seconds(true, 14336) - seconds(false, 14336), 14336 * 0.25 / 4 / 1e9, 1e-8);
  EXPECT_EQ(seconds(true, 0), seconds(false, 0)) << "who finds tables has none to make";
}

TEST(LookUp, making_tables_is_an_operator_of_its_own) {
  NpuBench bench(phone(kTables));
  const auto seconds = [&](std::uint64_t inputs) {
    Work work;
    work.kernel = bench.model().kernel("lut", "w2").id;
    work.read_bytes = 4 * 14336;
    work.table_inputs = inputs;
    return to_seconds(bench.call(work));
  };
  EXPECT_GT(seconds(14336) - seconds(0), 0.5 * 14336 * 0.5 / 4 / 1e9);
}

TEST(LookUp, every_group_of_columns_ends_in_a_sum) {
  const auto seconds = [](const std::string& sums) {
    NpuBench bench(phone("npu.kernels: {hvx: {dma: {lut: {w2: {packets_per_mac: 0.02, packets_per_sum: " + sums + "}}}}}"));
    return to_seconds(bench.call(look_up(bench.model(), 1, 4096, 4096, true)));
  };
  EXPECT_NEAR(seconds("0.5") - seconds("0"), 4096.0 * 4096 / 64 * 0.5 / 4 / 1e9, 2e-6);
}

TEST(LookUp, tables_and_spilled_sums_take_room_in_tcm) {
  NpuBench bench(phone(kTables));
  const TilePlanner planner(bench.parts());
  Kernel kernel;
  kernel.threads = 4;
  Work work = look_up(bench.model(), 1, 4096, 4096, true);
  const TilePlan plan = planner.plan(work, kernel);
  const auto held = [](const TilePlan& p) {
    Bytes sum = 0;
    for (const Bytes bytes : p.buffers) sum += bytes;
    return sum;
  };
  work.table_bytes = 0;
  const Bytes columns = plan.pass.full.in / (4096 / 4);
  EXPECT_EQ(held(plan) - held(planner.plan(work, kernel)), Bytes{8} * 4096 + 4 * columns);
  work.table_bytes = 9 * MiB;
  EXPECT_THROW(planner.plan(work, kernel), RunError);
}

// The int8 contract: a sum leaves the matrix unit for each block, and HVX scales it. 512 rows, so weights are the least of it.
TEST(Blocks, pay_for_each_sum_on_hvx_and_for_each_tile_that_leaves_the_matrix_unit) {
  const auto seconds = [](const std::string& price, const std::string& changes) {
    NpuBench bench(phone("npu.kernels: {hmx: {dma: {float: {q4_0: {packets_per_weight: 0.01, " + price + "}}}}}" + changes));
    return to_seconds(bench.call(product(bench.model(), kQ4, 512, 4096, 4096)));
  };
  const std::string light = "bits: 8, packets_per_sum: 0.0001", usual = "bits: 8, packets_per_sum: 0.2";
  const double sums = 512.0 * 4096 * 128, tiles = 16.0 * 128 * 128;
  EXPECT_NEAR(seconds("bits: 8, packets_per_sum: 0.4", "") - seconds(usual, ""), sums * 0.2 / 4 / 1e9, 0.02e-3);
  // With HVX as good as free, tiles limit: 32-bit sums are two bursts.
  const double few = seconds(light, ""), many = seconds(light, ", npu.tile_out_cycles: 28");
  NpuBench bench(phone());
  EXPECT_NEAR(many - few, tiles * 2 * 20 / bench.parts().hmx_clock / bench.parts().hmx_units, 0.03 * (many - few));
  // Activations become int8 in the call, all of them before the first group.
  const double made = seconds(usual + ", packets_per_activation: 1", "") - seconds(usual, "");
  EXPECT_NEAR(made, 512.0 * 4096 / 4 / 1e9, 0.03e-3);
}

// Four rows share the conversion of a block's scales; fewer have it for themselves.
TEST(Blocks, pay_for_a_blocks_scale_once_for_up_to_four_rows) {
  const auto seconds = [](std::uint32_t rows, const std::string& of_block) {
    const std::string price = "packets_per_weight: 0.01, bits: 8, packets_per_sum: 0.2, packets_per_block: " + of_block;
    NpuBench bench(phone("npu.kernels: {hmx: {dma: {float: {q4_0: {" + price + "}}}}}"));
    return to_seconds(bench.call(product(bench.model(), kQ4, rows, 4096, 4096)));
  };
  for (const auto& [rows, times] : {std::pair{1u, 1}, {3u, 1}, {4u, 1}, {5u, 2}, {8u, 2}}) {
    EXPECT_NEAR(seconds(rows, "60") - seconds(rows, "40"), times * 4096.0 * 128 * 20 / 4 / 1e9, 0.02e-3) << rows;
  }
}

TEST(Blocks, both_fidelities_agree) {
  const std::string price = "npu.kernels: {hmx: {dma: {float: {q4_0: {packets_per_weight: 0.02, bits: 8, packets_per_sum: 0.2}}}}}";
  for (const std::uint32_t rows : {1u, 32u, 512u}) {
    for (const std::uint32_t depth : {512u, 4096u, 14336u}) {
      NpuBench flow(phone(price), "flow"), detailed(phone(price), "detailed");
      const double ratio = to_seconds(flow.call(product(flow.model(), kQ4, rows, 4096, depth))) /
                           to_seconds(detailed.call(product(detailed.model(), kQ4, rows, 4096, depth)));
      EXPECT_NEAR(ratio, 1, 0.05) << rows << " rows, depth " << depth;
    }
  }
}

// Of a product with one row, 24 packets for 64 weights and 6 in between, 4 threads.
TEST(LookUp, tcm_scatters_while_the_thread_goes_on) {
  const auto seconds = [](const std::string& price) {
    NpuBench bench(phone("npu.kernels: {hmx: {dma: {float: {q4_0: {packets_per_weight: " + price + "}}}}}"));
    return to_seconds(bench.call(product(bench.model(), kQ4, 1, 4096, 4096)));
  };
  EXPECT_NEAR(seconds("0.09375, gathers_per_weight: 0.015625"), seconds("0.375"), 1e-9);
  EXPECT_NEAR(seconds("0.5, gathers_per_weight: 0.015625"), seconds("0.5"), 1e-9);
  EXPECT_GT(seconds("0.375"), 1.5 * seconds("0.09375"));
}

TEST(Softmax, elements_have_the_price_of_the_table_where_it_has_one) {
  const auto seconds = [](const std::string& price, std::uint64_t elements) {
    NpuBench bench(phone("npu.kernels: {hvx: {dma: {softmax: {exp_table: {packets_per_element: " + price + "}}}}}"));
    const KernelCost own = bench.model().kernel("softmax", "exp_table");
    Work work;
    work.kernel = own.id;
    work.has_own_rate = own.from_table;
    work.elements = elements;
    work.elementwise = 11 * elements;
    return to_seconds(bench.call(work));
  };
  const double call = seconds("0.25", 0), four_threads = 4e9;
  EXPECT_NEAR(seconds("0.25", 1 << 20) - call, 0.25 * (1 << 20) / four_threads, 1e-8);
  EXPECT_NEAR(seconds("0.25, gathers_per_element: 0.015625", 1 << 20) - call, 24.0 / 64 * (1 << 20) / four_threads, 1e-8);
  EXPECT_NEAR(seconds("0.5, gathers_per_element: 0.015625", 1 << 20) - call, 0.5 * (1 << 20) / four_threads, 1e-8);
}

}  // namespace
}  // namespace vitro::hw
