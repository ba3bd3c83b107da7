#include "hw_models/dram/characterize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/efficiency.hpp"
#include "hw_models/dram/flow.hpp"
#include "hw_models/dram/probe.hpp"
#include "tests/effort.hpp"

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

class DramParts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Parts, DramParts, testing::Values("lpddr5_6400", "lpddr5x_8533", "lpddr5x_9600", "m2_lpddr5_6400"),
                         [](const auto& info) { return std::string(info.param); });

// The parts of the two kinds of device that we have; tests/python/device/test_cross_fidelity.py has the others.
class DramFidelityPair : public testing::TestWithParam<const char*> {};
const std::vector<const char*> kPairs{"lpddr5x_9600", "m2_lpddr5_6400"};
INSTANTIATE_TEST_SUITE_P(Parts, DramFidelityPair, testing::ValuesIn(kPairs.begin(), kPairs.begin() + test::all_or_few(2, 1)),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DramFidelityPair, agree_within_five_percent) {
  const auto patterns = dram_patterns();
  for (std::size_t i = 0; i < patterns.size(); i += test::all_or_few(1, 4)) {
    const DramPattern& pattern = patterns[i];
    const std::uint32_t placements = pattern.agents.size() > 3 ? 0 : 4;  // few agents have less luck to average out
    for (const DramFidelityRow& row : dram_part_fidelity(GetParam(), pattern.name, placements)) {
      EXPECT_NEAR(row.flow, row.detailed, 0.05 * row.detailed) << pattern.name << ' ' << row.agent;
    }
  }
}

// A stream beside a kernel that reads and writes: what writes cost one reader does not say what they cost two.
TEST(FlowEfficiency, without_the_number_of_readers_writes_beside_two_are_too_cheap) {
  const FlowEfficiency table = derived_flow_efficiency("lpddr5_6400");
  FlowEfficiency::Entries alone;
  for (const auto& entry : table.entries()) {
    if (!entry.first.starts_with("turns.2/") && !entry.first.starts_with("copies.2/")) alone.push_back(entry);
  }
  const FlowEfficiency without(alone, {"alone"});
  const double rate = table.sequential().value;
  const std::vector<FlowEfficiency::Use> one{{rate, 1, 1, 0.05, 0}}, two{{rate, 1, 1, 0, 0}, {rate, 1, 1, 0.1, 1}};
  EXPECT_EQ(without.sustained(one), table.sustained(one));
  EXPECT_GT(without.sustained(two), 1.01 * table.sustained(two));
}

// A stream beside a kernel that writes what a writer of its own would.
TEST_P(DramParts, a_kernel_that_reads_and_writes_costs_readers_more_than_a_writer) {
  const FlowEfficiency table = derived_flow_efficiency(GetParam());
  FlowEfficiency::Entries rest;
  for (const auto& entry : table.entries()) {
    if (!entry.first.starts_with("copies.")) rest.push_back(entry);
  }
  const FlowEfficiency without(rest, {"rest"});
  const double rate = table.sequential().value;
  const std::vector<FlowEfficiency::Use> kernel{{rate, 1, 1, 0, 0}, {rate, 1, 1, 0.2, 1}};
  EXPECT_GT(without.sustained(kernel), 1.01 * table.sustained(kernel));
  const std::vector<FlowEfficiency::Use> writer{{rate, 1, 1, 0, 0}, {rate, 1, 1, 0, 1}, {0.2 * rate, 1, 1, 1, 2}};
  EXPECT_EQ(without.sustained(writer), table.sustained(writer));
}

// What several small streams cost a large one: the rates alone do not say it, their number does.
TEST_P(DramFidelityPair, without_the_number_of_streams_five_unequal_ones_are_off) {
  const FlowEfficiency table = derived_flow_efficiency(GetParam());
  FlowEfficiency::Entries pairs;
  for (const auto& [key, value] : table.entries()) {
    if (!key.starts_with("agents.") || key.starts_with("agents.2/")) pairs.emplace_back(key, value);
  }
  const FlowEfficiency without(pairs, {"pairs"});
  const double small = 0.14 * table.sequential().value;
  const std::vector<FlowEfficiency::Use> uses{
      {4 * small, 1, 1, 0, 0}, {small, 1, 1, 0, 1}, {small, 1, 1, 0, 2}, {small, 1, 1, 0, 3}, {small, 1, 1, 0, 4}};
  EXPECT_GT(without.sustained(uses), 1.03 * table.sustained(uses));
  EXPECT_GT(table.sustained(uses, false), without.sustained(uses));
}

// Of random mixes of patterns, whoever reads and writes.
TEST_P(DramParts, no_mix_gets_less_than_the_bound_for_its_slowest_pattern_and_its_writes) {
  const FlowEfficiency table = derived_flow_efficiency(GetParam());
  Rng rng(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const bool crowds = rng.below(2) == 0, patterns = rng.below(2) == 0;
    double slowest = 1, bytes = 0, written = 0;
    std::vector<FlowEfficiency::Use> uses;
    for (std::size_t agent = 0; agent <= rng.below(6); ++agent) {
      const double efficiency = patterns ? 0.2 + 0.8 * rng.uniform() : 1, writes = rng.below(2) == 0 ? 0 : rng.uniform();
      uses.emplace_back(rng.uniform() * 20e9 + 1, efficiency, 0.97 * efficiency, rng.below(5) == 0 ? 1 : writes, agent);
      slowest = std::max(slowest, uses.back().slowest);
      bytes += uses.back().rate;
      written += uses.back().rate * uses.back().written;
    }
    const double bound = table.sustained_at_least(slowest, written / bytes, crowds);
    EXPECT_GE(table.sustained(uses, crowds) * (1 + 1e-12), bound) << trial;
    EXPECT_GE(bound, table.sustained_at_least(slowest, 1, crowds));
    EXPECT_GE(bound, table.sustained_at_least(1.1 * slowest, written / bytes, crowds));
  }
}

TEST(FlowEfficiency, only_the_largest_stream_finds_rows_open) {
  EXPECT_EQ(FlowEfficiency::reopened(std::vector<double>{}), 0);
  EXPECT_EQ(FlowEfficiency::reopened(std::vector<double>{5}), 0);
  EXPECT_EQ(FlowEfficiency::reopened(std::vector<double>{5, 5}), 1);
  // A quarter of the largest's: its own bytes, and a quarter of the others.
  EXPECT_NEAR(FlowEfficiency::reopened(std::vector<double>{1, 4}), 1 - 0.75 * 4 / 5, 1e-12);
  EXPECT_NEAR(FlowEfficiency::reopened(std::vector<double>{1, 4, 1}), 1 - 0.75 * 0.75 * 4 / 6, 1e-12);
}

double rate_of_first(FlowDram& dram, EventLoop& loop, const std::vector<DramAgent>& agents) {
  return probe(dram, loop, agents, Picoseconds(5'000'000), Picoseconds(20'000'000)).agents[0].gb_per_s;
}

// Random agents, every part: company never helps.
TEST_P(DramParts, a_second_agent_never_makes_the_first_one_faster) {
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

// The same law of the model that looks at banks, where company changes the order of everything: only luck with a refresh may help.
TEST_P(DramParts, a_second_agent_never_makes_the_first_one_faster_in_detail) {
  Rng rng(11);
  const auto draw = [&rng](const char* name) {
    constexpr Bytes kChunks[] = {0, 0, 64, 256, 4096};
    DramAgent agent{.name = name, .cap = {5e9 + rng.uniform() * 80e9}, .chunk = kChunks[rng.below(std::size(kChunks))]};
    agent.request = std::max<Bytes>(agent.chunk, 4096);
    agent.outstanding = static_cast<std::uint32_t>(1 + rng.below(8));
    if (rng.below(4) == 0) agent.writes = 1;
    return agent;
  };
  const DramPart& part = dram_part(GetParam());
  for (int trial = 0; trial < 6; ++trial) {
    const DramAgent first = draw("first"), second = draw("second");
    double rates[2];
    for (const bool both : {false, true}) {
      EventLoop loop;
      DetailedDram dram({loop, "dram"}, std::make_unique<DramChannels>(loop, 1, part.timing, part.organisation, "mop4", ControllerPolicy{}),
                        {});
      const auto agents = both ? std::vector{first, second} : std::vector{first};
      rates[both] = probe(dram, loop, agents, Picoseconds(3'000'000), Picoseconds(8'000'000)).agents[0].gb_per_s;
    }
    EXPECT_LE(rates[1], 1.01 * rates[0]) << trial;
  }
}

TEST_P(DramParts, latency_rises_with_load) {
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
  EXPECT_THROW(dram_fidelity(parse_yaml("{capacity: 8 GB}", "dram"), "sequential"), ConfigError);
  EXPECT_THROW(dram_part_fidelity("lpddr5_6400", "somersaults"), ConfigError);
}

// Of the patterns of one agent every sixth entry, and some of each mix: all of them take minutes.
TEST(DramCharacterize, the_committed_efficiencies_are_what_the_derivation_gives) {
  const DramPart& part = dram_part("lpddr5_6400");
  constexpr std::string_view kAllMixes[] = {"agents.2/0.1", "queued.0.375", "turns.1/0.02", "turns.2/0.5", "copies.1/0.1"};
  const auto mixes = std::span(kAllMixes).first(test::all_or_few(5, 1));
  FlowEfficiency::Entries committed;
  const std::size_t kStride = test::all_or_few(6, 40);
  std::size_t number = 0;
  const FlowEfficiency table = derived_flow_efficiency(part.name);
  for (const auto& entry : table.entries()) {
    const bool mix = entry.first.starts_with("agents") || entry.first.starts_with("queued") || entry.first.starts_with("turns") ||
                     entry.first.starts_with("copies");
    if (mix ? std::ranges::find(mixes, entry.first) != mixes.end() : number++ % kStride == 0) committed.push_back(entry);
  }
  const auto wanted = [&](std::string_view key) {
    return std::any_of(committed.begin(), committed.end(), [key](const auto& entry) { return entry.first == key; });
  };
  const auto derived = derive_flow_efficiency(part, "mop4", {}, wanted).entries();
  ASSERT_EQ(derived.size(), committed.size());
  ASSERT_GT(derived.size(), 120u / kStride);
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
