#include <gtest/gtest.h>

#include "hw_models/dram/characterize.hpp"
#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/efficiency.hpp"
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

TEST(DramCharacterize, flow_and_detailed_agree_within_five_percent) {
  for (const DramTwinRow& row : dram_cross_fidelity("lpddr5_6400")) {
    EXPECT_NEAR(row.flow, row.detailed, 0.05 * row.detailed) << row.pattern << ' ' << row.agent;
  }
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
