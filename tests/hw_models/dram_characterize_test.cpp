#include <gtest/gtest.h>

#include "hw_models/dram/characterize.hpp"
#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/efficiency.hpp"
#include "hw_models/dram/flow.hpp"
#include "hw_models/dram/probe.hpp"

namespace vitro::hw {
namespace {

struct Probed {
  explicit Probed(const DramAgent& agent, std::string_view mapping = "mop4", std::uint64_t seed = 1) : loop(seed) {
    const DramPart& part = dram_part("lpddr5_6400");
    auto memory = std::make_unique<DramChannels>(loop, 1, part.timing, part.organisation, mapping, ControllerPolicy{});
    channels = memory.get();
    dram = std::make_unique<DetailedDram>(Site{loop, "dram"}, std::move(memory), DetailedDram::Limits{});
    result = probe(*dram, loop, {agent}, Picoseconds(5'000'000), Picoseconds(20'000'000));
  }
  EventLoop loop;
  const DramChannels* channels = nullptr;
  std::unique_ptr<DetailedDram> dram;
  DramProbeResult result;
};

TEST(DramCharacterize, the_published_runs_are_met_within_five_percent) {
  const auto rows = dram_reference_rows();
  ASSERT_EQ(rows.size(), 10u);
  for (const DramReferenceRow& row : rows) EXPECT_NEAR(row.simulated, row.expected, 0.05 * row.expected) << row.id;
}

class DramTwins : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Parts, DramTwins, testing::Values("lpddr5_6400", "lpddr5x_8533", "lpddr5x_9600", "m2_lpddr5_6400"),
                         [](const auto& info) { return std::string(info.param); });

// Beyond 5 % (docs/dram.md): on the M2 five unequal streams, of which one without a cap bears the whole error, so that only the
// total is held, and a copy; on LPDDR5-6400 an NPU beside a core that also writes.
double tolerance(std::string_view part, std::string_view pattern) {
  const bool known = (part == "m2_lpddr5_6400" && (pattern == "mixed_cores" || pattern == "copy")) ||
                     (part == "lpddr5_6400" && pattern == "mixed_npu_kernel");
  return known ? 0.1 : 0.05;
}

TEST_P(DramTwins, agree_within_five_percent) {
  for (const DramPattern& pattern : dram_patterns()) {
    for (const DramTwinRow& row : dram_part_twins(GetParam(), pattern.name)) {
      if (std::string_view(GetParam()) == "m2_lpddr5_6400" && pattern.name == "mixed_cores" && row.agent != "all") continue;
      EXPECT_NEAR(row.flow, row.detailed, tolerance(GetParam(), pattern.name) * row.detailed) << pattern.name << ' ' << row.agent;
    }
  }
}

double rate_of_first(FlowDram& dram, EventLoop& loop, const std::vector<DramAgent>& agents) {
  return probe(dram, loop, agents, Picoseconds(5'000'000), Picoseconds(20'000'000)).agents[0].gb_per_s;
}

// Random agents, every part: company never helps.
TEST_P(DramTwins, a_second_agent_never_makes_the_first_one_faster) {
  Rng rng(7);
  const auto draw = [&rng](const char* name) {
    constexpr Bytes kChunks[] = {0, 0, 64, 256, 1024, 4096, 16384};
    DramAgent agent{.name = name, .cap = {2e9 + rng.uniform() * 80e9}, .chunk = kChunks[rng.below(std::size(kChunks))]};
    agent.request = std::max<Bytes>(agent.chunk, 4096);
    agent.outstanding = static_cast<std::uint32_t>(1 + rng.below(16));
    if (rng.below(3) == 0) agent.stride = 4 * agent.chunk;
    if (rng.below(3) == 0) agent.writes = 1;
    return agent;
  };
  Node block = Node::map({});
  for (const auto& [key, value] : {std::pair("capacity", "8 GB"), {"available", "8 GB"}, {"latency", "58 ns"}, {"bandwidth", "1000 GB/s"}})
    block.set(key, Node::scalar(value));
  block.set("part", Node::scalar(GetParam()));
  for (int trial = 0; trial < 40; ++trial) {
    const DramAgent first = draw("first"), second = draw("second");
    double rates[2];
    for (const bool both : {false, true}) {
      EventLoop loop;
      Reader reader(block, "dram");
      FlowDram dram({loop, "dram"}, Params(reader, FlowDram::params()));
      rates[both] = rate_of_first(dram, loop, both ? std::vector{first, second} : std::vector{first});
    }
    EXPECT_LE(rates[1], 1.005 * rates[0]) << trial;
  }
}

TEST_P(DramTwins, latency_rises_with_load) {
  double before = 0;
  for (const double load : {0.0, 0.3, 0.6, 0.8, 1.2}) {
    EventLoop loop;
    const DramPart& part = dram_part(GetParam());
    DetailedDram dram({loop, "dram"}, std::make_unique<DramChannels>(loop, 1, part.timing, part.organisation, "mop4", ControllerPolicy{}),
                      {});
    std::vector<DramAgent> agents{{.name = "chase", .chunk = 32}};
    if (load > 0) {
      const double peak = part.timing.peak(part.organisation).value;
      agents.push_back({.name = "load", .cap = {load * peak}, .request = 4096, .outstanding = 16, .chunk = 4096});
    }
    const double latency = probe(dram, loop, agents, Picoseconds(5'000'000), Picoseconds(60'000'000)).agents[0].mean_latency_ns;
    EXPECT_GT(latency, before) << load;
    before = latency;
  }
}

TEST(DramCharacterize, memory_without_a_part_has_no_twin) {
  EXPECT_THROW(dram_twins(parse_yaml("{capacity: 8 GB}", "dram"), "sequential"), ConfigError);
  EXPECT_THROW(dram_part_twins("lpddr5_6400", "somersaults"), ConfigError);
}

TEST(DramCharacterize, the_committed_efficiencies_are_what_the_derivation_gives) {
  const DramPart& part = dram_part("lpddr5_6400");
  const auto derived = derive_flow_efficiency(part, "mop4", {}).entries(), committed = derived_flow_efficiency(part.name).entries();
  ASSERT_EQ(derived.size(), committed.size());
  for (std::size_t i = 0; i < derived.size(); ++i) {
    EXPECT_EQ(derived[i].first, committed[i].first);
    EXPECT_NEAR(derived[i].second, committed[i].second, 0.002 * derived[i].second) << derived[i].first;
  }
}

TEST(DramCharacterize, bandwidth_never_exceeds_the_peak) {
  for (const DramPattern& pattern : dram_patterns()) {
    const Probed probed(pattern.agents.front());
    EXPECT_LE(probed.result.gb_per_s * 1e9, probed.channels->peak().value) << pattern.name;
    EXPECT_GT(probed.result.gb_per_s, 0) << pattern.name;
  }
}

TEST(DramCharacterize, row_hits_are_faster_than_misses) {
  const Probed hits({.name = "a", .request = 32, .outstanding = 1}), misses({.name = "a", .request = 32, .outstanding = 1, .chunk = 32});
  EXPECT_LT(hits.result.agents[0].mean_latency_ns + 20, misses.result.agents[0].mean_latency_ns);
}

TEST(DramCharacterize, every_mapping_serves_every_line_and_interleaving_pays) {
  std::map<std::string, double> rates;
  for (const std::string_view mapping : AddressMap::names())
    rates[std::string(mapping)] = Probed({.name = "a", .request = 4096, .outstanding = 8}, mapping).result.gb_per_s;
  EXPECT_GT(rates["mop4"], rates["robaracoch"]);
  EXPECT_GT(rates["robaracoch"], 3 * rates["chrabaroco"]);  // one channel in use at a time
}

TEST(DramCharacterize, equal_seeds_give_equal_runs) {
  const DramAgent agent{.name = "a", .request = 8192, .outstanding = 4, .chunk = 256, .writes = 0.3};
  const Probed a(agent), b(agent);
  EXPECT_EQ(a.result.gb_per_s, b.result.gb_per_s);
  EXPECT_EQ(a.channels->counts().read_cycles, b.channels->counts().read_cycles);
  EXPECT_EQ(a.channels->counts().activates, b.channels->counts().activates);
}

}  // namespace
}  // namespace vitro::hw
