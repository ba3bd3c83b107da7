// The microbenchmarks that configs/devices/oneplus12.yaml was set from, asked back through simulated requests.
#include "engine/ops/variants.hpp"
#include "engine/quant/blocks.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

constexpr double kStreamBytes = 16e6;

Task<void> stream_on_cpu(ComputeUnit* unit, int calls) {
  Chain chain(static_cast<std::size_t>(calls), test_call(0, kStreamBytes));
  co_await run_chain(unit, std::move(chain));
}

// The matrix of PowerInfer-2 Fig. 3(a) times one row of activations.
KernelCall decode_product(Machine& machine) {
  constexpr std::uint32_t kRows = 14336, kDepth = 4096;
  const auto lease = [&](Bytes bytes) { return machine.memory.lease(bytes, Placement::npu_mapped, Region::hot).value_or_throw(); };
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kHmx;  // which memory limits; int8 is limited by the sums that leave the matrix unit
  call.in.push_back({lease(kRows * row_bytes(Format::q4_0, kDepth)), 0, {kRows, kDepth, 0}, Format::q4_0});
  call.in.push_back({lease(4 * kDepth), 0, {1, kDepth, 0}});
  call.out.push_back({lease(4 * kRows), 0, {1, kRows, 0}});
  call.batch = std::make_shared<const std::vector<SeqPos>>(1);
  return call;
}

WorkCounts stream_counts(const KernelCall& call) { return call.is<ops::Matmul>() ? count(call) : test_counts(call); }

Task<void> stream_on_npu(ComputeUnit* unit, KernelCall product, int calls) {
  GraphSpec spec{"stream", Chain(static_cast<std::size_t>(calls), product), true};
  const Graph graph = (co_await unit->load(std::move(spec))).value_or_throw();
  Bindings bindings;
  const RunResult result = co_await unit->launch(graph, std::move(bindings));
  result.status.or_throw();
}

// GB/s over the middle of the run, where everybody is at work.
double stream_bandwidth(bool cpu, bool npu, const std::vector<std::pair<const char*, const char*>>& changes = {}) {
  SimOptions options = oneplus12_options();
  for (const auto& [key, value] : changes) options.device.set_path(key, Node::scalar(value));
  options.phantom = true;
  options.count = stream_counts;
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  std::vector<Task<void>> tasks;
  if (cpu) {
    for (std::size_t core = 0; core < 6; ++core) tasks.push_back(stream_on_cpu(machine.units[core], 20));
  }
  if (npu) tasks.push_back(stream_on_npu(machine.units[8], decode_product(machine), 30));
  simulation.run(together(&machine, std::move(tasks)));
  return *simulation.host().report(5 * kMs, 15 * kMs).dram_bandwidth_gb_per_s;
}

TEST(OnePlus12, dram_bandwidth_of_cpu_npu_and_both) {
  EXPECT_NEAR(stream_bandwidth(true, false), 43.9, 0.01 * 43.9);  // pi2_membw_cpu_only
  EXPECT_NEAR(stream_bandwidth(false, true), 56.0, 0.01 * 56.0);  // pi2_membw_npu_only
  EXPECT_NEAR(stream_bandwidth(true, true), 59.6, 0.01 * 59.6);   // pi2_membw_cpu_npu
  EXPECT_NEAR(stream_bandwidth(false, true, {{"npu.fidelity", "detailed"}}), 56.0, 0.01 * 56.0);
  EXPECT_NEAR(stream_bandwidth(true, true, {{"npu.fidelity", "detailed"}}), 59.6, 0.01 * 59.6);
}

// Each of the three comes from a limit of its own: without it the row is off by far, and the other two stay.
TEST(OnePlus12, dram_bandwidth_without_the_port_of_the_cpu) {
  const auto changes = {std::pair{"cpu.bandwidth", "1000 GB/s"}};
  EXPECT_GT(stream_bandwidth(true, false, changes), 1.1 * 43.9);
  EXPECT_NEAR(stream_bandwidth(false, true, changes), 56.0, 0.01 * 56.0);
  EXPECT_NEAR(stream_bandwidth(true, true, changes), 59.6, 0.01 * 59.6);
}

TEST(OnePlus12, dram_bandwidth_without_what_the_npus_pipeline_loses) {
  for (const char* fidelity : {"flow", "detailed"}) {
    const auto changes = {std::pair{"npu.fidelity", fidelity}, {"npu.hand_over_cycles", "0"}};
    EXPECT_GT(stream_bandwidth(false, true, changes), 1.03 * 56.0);
    EXPECT_NEAR(stream_bandwidth(true, true, changes), 59.6, 0.01 * 59.6);
  }
}

TEST(OnePlus12, dram_bandwidth_without_the_limit_of_memory) {
  const auto changes = {std::pair{"dram.bandwidth", "1000 GB/s"}, {"dram.part", "none"}};
  EXPECT_NEAR(stream_bandwidth(true, false, changes), 43.9, 0.01 * 43.9);
  EXPECT_GT(stream_bandwidth(true, true, changes), 1.4 * 59.6);  // little less than the sum of the two
}

struct ReadLoad {
  Bytes block = 4096, range = 0;
  Pattern pattern = Pattern::random;
  std::uint32_t depth = 1;
  std::vector<std::size_t> issuers{0};
  std::uint32_t reads = 4000;
};

Task<void> read_lane(Machine* machine, FileId file, const ReadLoad* load, std::uint32_t lane, std::uint32_t* next) {
  const Lease into = machine->memory.lease(load->block, Placement::dram, Region::staging).value_or_throw();
  while (*next < load->reads) {
    const std::uint64_t number = (*next)++;
    const Bytes blocks = load->range / load->block;
    const Bytes block = load->pattern == Pattern::sequential ? number % blocks : mix(1, {number}) % blocks;
    ReadRequest request;
    request.from = {file, block * load->block, load->block};
    request.into = into;
    request.pattern = load->pattern;
    request.issuer = UnitId(load->issuers[lane % load->issuers.size()]);
    const IoResult result = co_await machine->storage.read(std::move(request));
    result.status.or_throw();
  }
}

double megabytes_per_second(const ReadLoad& load) {
  SimOptions options = oneplus12_options();
  options.phantom = true;
  Simulation simulation(options);
  Machine& machine = simulation.machine();
  const FileId file = machine.storage.open_phantom(load.range).value_or_throw();
  std::uint32_t next = 0;
  std::vector<Task<void>> tasks;
  for (std::uint32_t lane = 0; lane < load.depth; ++lane) tasks.push_back(read_lane(&machine, file, &load, lane, &next));
  simulation.run(together(&machine, std::move(tasks)));
  return static_cast<double>(load.block) * load.reads / to_seconds(simulation.now()) * 1e-6;
}

constexpr double kWithin = 0.015;

TEST(OnePlus12, block_size_curve_one_request_at_a_time) {
  EXPECT_NEAR(megabytes_per_second({4096, 512 * MiB, Pattern::sequential}), 450, kWithin * 450);                // pi2_ufs4_seq_read_4kb
  EXPECT_NEAR(megabytes_per_second({512 * KiB, GiB, Pattern::sequential, 1, {0}, 500}), 4000, kWithin * 4000);  // pi2_ufs4_seq_read_512kb
  EXPECT_NEAR(megabytes_per_second({512 * KiB, 128 * MiB, Pattern::random, 1, {0}, 2000}), 3500,
              kWithin * 3500);  // pi2_ufs4_rand_read_512kb
}

TEST(OnePlus12, small_random_reads_depend_on_the_issuing_core) {
  const auto on = [](std::size_t core) { return megabytes_per_second({4096, 128 * MiB, Pattern::random, 32, {core}}); };
  EXPECT_NEAR(on(0), 1076.10, kWithin * 1076.10);  // pi2_ufs_rand4k_big_core
  EXPECT_NEAR(on(1), 1007.95, kWithin * 1007.95);  // pi2_ufs_rand4k_mid_core
  EXPECT_NEAR(on(6), 761.87, kWithin * 761.87);    // pi2_ufs_rand4k_little_core
}

TEST(OnePlus12, small_random_reads_over_a_wide_range_miss_the_map_cache) {
  const double wide = megabytes_per_second({4096, 512 * MiB, Pattern::random, 32, {0}, 20'000});
  EXPECT_NEAR(wide, 850, 0.02 * 850);  // pi2_ufs4_rand_4kb_range_512mb, an upper bound
}

TEST(OnePlus12, two_issuing_cores_lose_up_to_40_percent) {
  const double two = megabytes_per_second({4096, 128 * MiB, Pattern::random, 32, {0, 1}});
  EXPECT_NEAR(two, 0.6 * 1076.10, 0.03 * 1076.10);  // pi2_ufs_multicore_io_degradation
}

}  // namespace
}  // namespace vitro::sim
