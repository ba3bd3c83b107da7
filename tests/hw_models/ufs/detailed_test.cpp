#include "hw_models/ufs/detailed.hpp"

#include <gtest/gtest.h>

#include "hw_models/ufs/probe.hpp"
#include "tests/hw_models/ufs/device.hpp"

namespace vitro::hw {
namespace {

constexpr Hertz kCore{3e9};

StorageProbe reads(bool sequential, Bytes block, Bytes range, std::uint32_t depth) {
  return {sequential, false, block, range, depth, {kCore}, 250, 2000};
}

double rate(const StorageProbe& probe, const std::string& changes = "", const std::string& name = "ufs4_0") {
  return run(preset(name, "detailed", changes), probe).bytes_per_second;
}

TEST(DetailedUfs, the_queue_never_exceeds_its_slots) {
  for (const std::uint32_t slots : {1u, 4u, 32u}) {
    StorageBench bench(preset("ufs4_0", "detailed", "queue_depth: " + std::to_string(slots)));
    run(bench.model(), bench.loop(), {false, false, 4 * KiB, 512 * MiB, 40, {kCore, kCore}, 500, 2000});
    EXPECT_EQ(dynamic_cast<const DetailedUfs&>(bench.model()).queue().most_in_flight(), slots);
  }
}

TEST(DetailedUfs, sequential_reads_are_at_least_as_fast_as_random_ones) {
  for (const Bytes block : {4 * KiB, 16 * KiB, 64 * KiB, 512 * KiB}) {
    for (const std::uint32_t depth : {1u, 4u, 32u}) {
      EXPECT_GE(rate(reads(true, block, 512 * MiB, depth)) * 1.001, rate(reads(false, block, 512 * MiB, depth))) << block << " x " << depth;
    }
  }
}

TEST(DetailedUfs, map_hits_are_faster_than_misses) {
  const StorageProbe probe = reads(false, 4 * KiB, 64 * MiB, 1);
  const double hit = 1 / run(preset("ufs4_0", "detailed"), probe).commands_per_second;
  const double miss = 1 / run(preset("ufs4_0", "detailed", "map_cache_reach: 0 B"), probe).commands_per_second;
  EXPECT_GT(miss - hit, 17.6e-6);  // at least one more tR
}

TEST(DetailedUfs, more_dies_channels_and_a_shorter_tr_read_faster) {
  const std::string free_host = "issue_cycles: 0, issue_fixed: 0 us, command_overhead: 0 us, ";
  const StorageProbe small = reads(false, 4 * KiB, 128 * MiB, 32), large = reads(false, 64 * KiB, 128 * MiB, 32);
  const double base = rate(small, free_host);
  EXPECT_LT(rate(small, free_host + "dies_per_channel: 2"), base / 2);
  EXPECT_LT(rate(small, free_host + "read_time: 70 us"), base / 2);
  EXPECT_LT(rate(large, "channels: 1"), 3.7e9);
  EXPECT_LT(rate(large, "lanes: 1"), rate(large) * 0.51);
}

TEST(DetailedUfs, a_die_can_not_sense_faster_than_tr) {
  const double rate_of_one = run(preset("ufs4_0", "detailed", "issue_cycles: 0, issue_fixed: 0 us, read_ahead: 0 B, retry_probability: 0%"),
                                 {false, false, 4 * KiB, 64 * KiB, 32, {kCore}, 500, 4000})
                                 .commands_per_second;
  EXPECT_NEAR(rate_of_one, 1 / (17.6e-6 + 4096 / 3.6e9), 300);
}

TEST(DetailedUfs, writes_past_the_slc_buffer_slow_down) {
  const StorageProbe writes{true, true, 512 * KiB, 2 * GiB, 32, {kCore}, 200, 2000};
  const double fast = rate(writes), slow = rate(writes, "slc_buffer: 0 B");
  EXPECT_LT(slow, fast * 0.7);
  const double mixed = rate(writes, "slc_buffer: 600 MB");
  EXPECT_GT(mixed, slow * 1.05);
  EXPECT_LT(mixed, fast * 0.95);
}

TEST(DetailedUfs, collection_slows_random_writes_to_a_full_device) {
  const std::string small = "flash_capacity: 500 MB, pages_per_block: 4, slc_buffer: 0 B, overprovision: 5%, ";
  const StorageProbe writes{false, true, 64 * KiB, 450 * MiB, 32, {kCore}, 6000, 2000};
  StorageBench empty(preset("ufs4_0", "detailed", small + "filled: 0%")), full(preset("ufs4_0", "detailed", small + "filled: 100%"));
  const StorageProbe once{true, true, 64 * KiB, 425 * MiB, 32, {kCore}, 250, 2000};
  const double fresh = run(empty.model(), empty.loop(), once).bytes_per_second;
  const double worn = run(full.model(), full.loop(), writes).bytes_per_second;
  EXPECT_LT(worn, fresh * 0.6);
  const auto& device = dynamic_cast<const DetailedUfs&>(full.model());
  EXPECT_GT(device.write_totals().collected, 0u);
  EXPECT_EQ(dynamic_cast<const DetailedUfs&>(empty.model()).write_totals().collected, 0u);
}

TEST(DetailedUfs, retries_make_a_tail_and_leave_the_median) {
  const StorageProbe probe{false, false, 4 * KiB, 64 * MiB, 1, {kCore}, 100, 20000};
  const StorageProbeResult with = run(preset("ufs4_0", "detailed"), probe);
  const StorageProbeResult without = run(preset("ufs4_0", "detailed", "retry_probability: 0%"), probe);
  EXPECT_EQ(with.p50, without.p50);
  EXPECT_EQ(with.p99, without.p99);
  EXPECT_EQ(with.p999 - without.p999, Picoseconds(60'000'000));
}

TEST(DetailedUfs, runs_with_one_seed_are_identical_and_seeds_differ) {
  StorageProbe probe = reads(false, 16 * KiB, 512 * MiB, 8);
  const Node device = preset("ufs4_0", "detailed");
  const std::uint64_t first = run(device, probe).hash;
  EXPECT_EQ(first, run(device, probe).hash);
  probe.seed = 2;
  EXPECT_NE(first, run(device, probe).hash);
}

TEST(DetailedUfs, written_data_is_read_back_from_memory_at_once) {
  StorageBench bench(preset("ufs4_0", "detailed"));
  Picoseconds written{0}, read{0};
  bench.model().submit({GiB, 4096, true, false, 0}, [&] { written = bench.loop().now(); });
  while (!bench.loop().empty()) bench.loop().step();
  const Picoseconds begin = bench.loop().now();
  bench.model().submit({GiB, 4096, false, false, 0}, [&] { read = bench.loop().now(); });
  while (!bench.loop().empty()) bench.loop().step();
  EXPECT_GT(written, Picoseconds(0));
  EXPECT_LT(read - begin, 2 * Picoseconds(17'600'000) + Picoseconds(6'000'000));  // a map fetch, and no tR for the data
}

TEST(DetailedUfs, geometry_that_does_not_fit_is_refused) {
  for (const char* change : {"channels: 0", "planes: 1.5", "page: 6 KiB", "flash_capacity: 100 MB", "write_memory: 256 KiB", "filled: 120%",
                             "protocol_efficiency: 0%", "map_fetches: 0"}) {
    EXPECT_THROW(StorageBench(preset("ufs4_0", "detailed", change)), ConfigError) << change;
  }
}

TEST(DetailedUfs, an_address_beyond_the_capacity_ends_the_run_with_a_message) {
  StorageBench bench(preset("ufs4_0", "detailed"));
  EXPECT_THROW(bench.model().submit({300'000'000'000 / 4096 * 4096, 4096, false, false, 0}, [] {}), RunError);
}

}  // namespace
}  // namespace vitro::hw
