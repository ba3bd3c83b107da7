#include "hw_models/dram/flow.hpp"

#include <gtest/gtest.h>

#include <set>

#include "hw_models/ufs/flow.hpp"
#include "hw_models/ufs/parameters.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

// 4 KiB take 1 us on the link; a random read has 10 us of latency, a sequential one 2 us.
struct Ufs {
  explicit Ufs(const std::string& extra = "") {
    const Node dram_node = parse_yaml("{capacity: 1 GB, available: 1 GB, bandwidth: 20 GB/s, latency: 0 ns}", "t");
    Reader dram_reader(dram_node, "dram");
    dram_params = Params(dram_reader, FlowDram::params());
    dram = std::make_unique<FlowDram>(Site{context, "dram", nullptr, kMemoryController}, dram_params);
    Node node = parse_yaml(
        "{max_transfer: 64 KiB, issue_cycles: 3000, issue_fixed: 1 us, latency_sequential: 2 us, latency_random: 10 us, command_overhead: "
        "0 us,"
        " issuer_switch: 0 us, map_cache_reach: 1 GiB, map_cache_miss: 0 us, link_bandwidth: 4.096 GB/s, write_bandwidth: 2.048 GB/s}",
        "t");
    const Node changes = parse_yaml("{" + extra + "}", "t");
    for (const auto& [key, value] : changes.entries()) node.set(key, value);
    Reader reader(node, "ufs");
    params = Params(reader, flow_ufs_params());
    const PortId port = dram->add_port({"ufs", {20e9}});
    model = std::make_unique<FlowUfs>(Site{context, "ufs", dram.get(), port}, params);
  }
  void read(std::uint64_t address, bool sequential = false, std::uint16_t issuer = 0, bool write = false) {
    model->submit({address, 4096, write, sequential, issuer}, [this] { ends.push_back(context.now()); });
  }

  // Has the first map page fetched; times count from here.
  void warm_up() {
    read(0);
    context.run();
    begin = context.now();
    ends.clear();
  }
  std::vector<Picoseconds> times() const {
    std::vector<Picoseconds> times;
    for (const Picoseconds end : ends) times.push_back(end - begin);
    return times;
  }

  Picoseconds begin{0};
  TestContext context;
  Params dram_params, params;
  std::unique_ptr<FlowDram> dram;
  std::unique_ptr<FlowUfs> model;
  std::vector<Picoseconds> ends;
};

// Remembers through which port bytes came; moves them at once.
class RecordingDram final : public DramModel {
 public:
  explicit RecordingDram(Context& context) : context_(context) {}
  PortId add_port(const PortSpec& spec) override {
    caps.push_back(spec.cap.value);
    return PortId(caps.size());
  }
  void submit(const DramRequest& request, Callback done) override {
    (request.written > 0 ? written : read).insert(request.port);
    context_.at(context_.now(), {}, done);
  }
  DramTotals totals() override { return {}; }
  double bytes_moved(Picoseconds, Picoseconds) override { return 0; }
  double peak_rate(Picoseconds, Picoseconds) override { return 0; }

  std::vector<double> caps;  // of port 1, 2 ...
  std::set<PortId> read, written;

 private:
  Context& context_;
};

TEST(FlowUfs, each_direction_of_the_link_has_a_port_and_its_whole_rate) {
  Ufs ufs;
  RecordingDram dram(ufs.context);
  FlowUfs model({ufs.context, "ufs", &dram, kMemoryController}, ufs.params);
  for (const bool write : {false, true}) model.submit({0, 4096, write, false, 0}, [] {});
  ufs.context.run();
  EXPECT_EQ(dram.caps, (std::vector{4.096e9, 4.096e9}));
  ASSERT_TRUE(dram.read.size() == 1 && dram.written.size() == 1);  // a read of flash is written to memory
  EXPECT_NE(*dram.read.begin(), *dram.written.begin());
}

TEST(FlowUfs, latency_overlaps_and_transfers_do_not) {
  Ufs ufs;
  for (int i = 0; i < 3; ++i) ufs.read(4096u * static_cast<unsigned>(i));
  ufs.context.run();
  EXPECT_EQ(ufs.ends, (std::vector{11 * kUs, 12 * kUs, 13 * kUs}));
}

TEST(FlowUfs, commands_beyond_the_queue_wait_for_a_slot) {
  Ufs ufs("queue_depth: 1");
  for (int i = 0; i < 3; ++i) ufs.read(4096u * static_cast<unsigned>(i));
  ufs.context.run();
  EXPECT_EQ(ufs.ends, (std::vector{11 * kUs, 22 * kUs, 33 * kUs}));

  Ufs two("queue_depth: 2");
  for (int i = 0; i < 3; ++i) two.read(4096u * static_cast<unsigned>(i));
  two.context.run();
  EXPECT_EQ(two.ends, (std::vector{11 * kUs, 12 * kUs, 22 * kUs}));
}

TEST(FlowUfs, a_sequential_read_has_less_latency) {
  Ufs ufs;
  ufs.read(0, true);
  ufs.context.run();
  EXPECT_EQ(ufs.ends, std::vector{3 * kUs});
}

TEST(FlowUfs, reads_outside_the_map_cache_pay_for_the_miss) {
  Ufs ufs("map_cache_reach: 4 MiB, map_cache_miss: 5 us");
  for (const std::uint64_t address : {0ull, 4096ull, 8ull << 20, 0ull}) {
    ufs.read(address);
    ufs.context.run();
  }
  EXPECT_EQ(ufs.ends[0], 16 * kUs);
  EXPECT_EQ(ufs.ends[1] - ufs.ends[0], 11 * kUs);
  EXPECT_EQ(ufs.ends[2] - ufs.ends[1], 16 * kUs);
  EXPECT_EQ(ufs.ends[3] - ufs.ends[2], 16 * kUs);  // evicted by the third
}

TEST(FlowUfs, a_queue_that_several_cores_share_loses_time) {
  Ufs ufs("issuer_switch: 4 us");
  for (const std::uint16_t issuer : {0, 0, 1, 0}) ufs.read(0, false, issuer);
  ufs.context.run();
  EXPECT_EQ(ufs.ends, (std::vector{11 * kUs, 12 * kUs, 15 * kUs, 19 * kUs}));
}

TEST(FlowUfs, a_stream_behind_a_random_read_in_flight_is_not_read_ahead) {
  Ufs ufs;
  ufs.read(0);
  ufs.read(4096, true);
  ufs.read(8192, true);
  ufs.context.run();
  EXPECT_EQ(ufs.ends, (std::vector{11 * kUs, 12 * kUs, 13 * kUs}));
  ufs.read(12288, true);
  ufs.context.run();
  EXPECT_EQ(ufs.ends.back(), 13 * kUs + 3 * kUs);
}

TEST(FlowUfs, the_controller_works_on_one_command_at_a_time) {
  Ufs one("command_overhead: 2 us"), two("command_overhead: 2 us, controller_cores: 2");
  for (Ufs* ufs : {&one, &two}) {
    ufs->warm_up();
    for (unsigned i = 0; i < 4; ++i) ufs->read(4096 * i);
    ufs->context.run();
  }
  EXPECT_EQ(one.times(), (std::vector{13 * kUs, 15 * kUs, 17 * kUs, 19 * kUs}));
  EXPECT_EQ(two.times(), (std::vector{13 * kUs, 14 * kUs, 15 * kUs, 16 * kUs}));
}

// As behind a hypervisor, where one thread handles a command and copies its data before it takes the next.
TEST(FlowUfs, what_is_serial_with_a_transfer_adds_to_it) {
  Ufs ufs("transfer_overhead: 2 us");
  ufs.warm_up();
  for (unsigned i = 0; i < 3; ++i) ufs.read(4096 * i);
  ufs.context.run();
  EXPECT_EQ(ufs.times(), (std::vector{13 * kUs, 16 * kUs, 19 * kUs}));
}

// Four fetches of 5 us; reads of one segment share one.
TEST(FlowUfs, map_fetches_are_few_and_shared) {
  Ufs ufs("map_cache_reach: 4 GiB, map_cache_miss: 5 us, map_fetches: 2, queue_depth: 8");
  for (const std::uint64_t segment : {0, 1, 2, 3, 3}) ufs.read(segment * 4 * MiB);
  ufs.context.run();
  EXPECT_EQ(ufs.ends, (std::vector{16 * kUs, 17 * kUs, 21 * kUs, 22 * kUs, 23 * kUs}));
}

TEST(FlowUfs, random_reads_wait_for_the_dies_that_others_use) {
  Ufs ufs("media_time: 10 us, media_dies: 2, media_channels: 1, queue_depth: 8");
  ufs.warm_up();
  for (const std::uint64_t stripe : {0, 2, 4, 1}) ufs.read(stripe * 64 * KiB);
  ufs.context.run();
  const Picoseconds expected[] = {11 * kUs, 12 * kUs, 21 * kUs, 31 * kUs};  // the last read has a die of its own
  ASSERT_EQ(ufs.ends.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(to_seconds(ufs.times()[i] - expected[i]), 0, 5e-9) << i;  // 4 KiB on a channel
}

TEST(FlowUfs, issuing_costs_a_slower_core_more) {
  Ufs ufs;
  EXPECT_EQ(ufs.model->issue_time({3e9}), 2 * kUs);
  EXPECT_EQ(ufs.model->issue_time({1e9}), 4 * kUs);
}

TEST(FlowUfs, a_busy_dram_slows_the_transfer) {
  Ufs ufs;
  const PortId hog = ufs.dram->add_port({"hog", {20e9}, kMemoryController, 9});
  ufs.dram->submit({hog, 20'000'000, false, Picoseconds(0)}, [] {});
  ufs.read(0);
  ufs.context.run();
  EXPECT_EQ(ufs.ends, std::vector{10 * kUs + 2048 * kNs});  // a tenth of 20 GB/s
}

TEST(FlowUfs, writes_run_at_their_own_bandwidth) {
  Ufs ufs("latency_write: 20 us");
  ufs.read(0, false, 0, true);
  ufs.context.run();
  EXPECT_EQ(ufs.ends, std::vector{22 * kUs});
  EXPECT_EQ(ufs.dram->totals().bytes_read, 4096);
}

TEST(FlowUfs, writes_go_at_the_link_until_the_memory_is_full_and_at_tlc_when_the_buffer_is) {
  Ufs ufs(
      "latency_write: 0 us, write_memory: 8 KiB, slc_buffer: 16 KiB, write_bandwidth_sustained: 0.4096 GB/s, "
      "fold_bandwidth: 4.096 GB/s");
  for (unsigned i = 0; i < 8; ++i) ufs.read(4096 * i, false, 0, true);
  ufs.context.run();
  // Programming 4 KiB takes 2 us to SLC and 10 us to TLC; memory holds two of them.
  EXPECT_EQ(ufs.ends[2], 3 * kUs);
  EXPECT_EQ(ufs.ends[7] - ufs.ends[6], 10 * kUs);
  // 20 us of quiet fold more than the buffer holds.
  ufs.context.run_until(ufs.context.now() + 40 * kUs);
  const Picoseconds begin = ufs.context.now();
  ufs.read(0, false, 0, true);
  ufs.context.run();
  EXPECT_EQ(ufs.ends.back() - begin, 1 * kUs);
}

TEST(FlowUfs, reads_and_writes_have_a_direction_of_the_link_each) {
  Ufs ufs("latency_write: 10 us");
  ufs.read(0);
  ufs.read(4096, false, 0, true);
  ufs.context.run();
  EXPECT_EQ(ufs.ends, (std::vector{11 * kUs, 12 * kUs}));  // a write takes 2 us
  EXPECT_EQ(ufs.model->bytes_moved(Picoseconds(0), ufs.context.now()), 8192);
}

TEST(FlowUfs, counts_and_rates_of_zero_are_refused) {
  for (const char* change : {"queue_depth: 0", "queues: 0", "controller_cores: 0", "map_fetches: 0", "max_transfer: 1 KiB"}) {
    EXPECT_THROW(Ufs{change}, ConfigError) << change;
  }
}

// A round of n reads takes 10 us and n times 1 us, and all are told at its end.
TEST(FlowUfs, a_device_that_reports_together_pays_its_latency_once_for_a_round) {
  Ufs ufs("completions: together");
  ufs.warm_up();
  for (int i = 0; i < 4; ++i) ufs.read(MiB + 8192 * static_cast<std::uint64_t>(i));
  ufs.context.run();
  EXPECT_EQ(ufs.times(), (std::vector<Picoseconds>(4, Picoseconds(14'000'000))));
}

}  // namespace
}  // namespace vitro::hw
