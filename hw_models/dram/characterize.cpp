#include "hw_models/dram/characterize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/probe.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {
namespace {

constexpr Picoseconds kWarmUp{20'000'000}, kWindow{100'000'000}, kDetailedWarmUp{15'000'000}, kDetailedWindow{30'000'000};
constexpr std::uint32_t kPlacementsOfCrowds = 32, kPlacements = 12;

struct Reference {
  const char* id;
  const char* mapping;
  RefreshPolicy refresh;
  bool random;
  double gb_per_s, latency_ns;
};
constexpr Reference kReferences[] = {
    {"sequential_mop4", "mop4", RefreshPolicy::none, false, 50.6, 105},
    {"sequential_mop4_all_bank_refresh", "mop4", RefreshPolicy::all_bank, false, 46.3, 112},
    {"sequential_mop4_per_bank_refresh", "mop4", RefreshPolicy::per_bank, false, 48.4, 108},
    {"sequential_robaracoch_all_bank_refresh", "robaracoch", RefreshPolicy::all_bank, false, 40.6, 124},
    {"random_32b_one_outstanding", "mop4", RefreshPolicy::none, true, 0.50, 62.5},
};

DramProbeResult run(const Node& dram, const char* fidelity, std::vector<DramAgent> agents, std::uint32_t placement) {
  for (DramAgent& agent : agents) agent.placement = placement;
  Registry registry;
  register_dram(registry);
  Node block = dram;
  block.set("fidelity", Node::scalar(fidelity));
  block.set("bandwidth", Node::scalar("1000 GB/s"));
  Reader reader(block, "dram");
  const Entry<DramModel>& entry = registry.dram(reader, "lpddr");
  // Keys of the other fidelity stay unread.
  Params params(reader, entry.params);
  for (const std::string_view table : entry.tables) params.add_table(reader, table, false);
  EventLoop loop;
  const std::unique_ptr<DramModel> model = entry.make({loop, "dram", nullptr, kMemoryController}, params);
  return probe(*model, loop, agents, kDetailedWarmUp, kDetailedWindow);
}

}  // namespace

std::vector<DramReferenceRow> dram_reference_rows() {
  std::vector<DramReferenceRow> rows;
  for (const Reference& reference : kReferences) {
    EventLoop loop;
    const DramPart& part = dram_part("lpddr5_6400");
    ControllerPolicy policy;
    policy.refresh = reference.refresh;
    auto memory = std::make_unique<DramChannels>(loop, 1, part.timing, part.organisation, reference.mapping, policy);
    const DramChannels& channels = *memory;
    DetailedDram dram({loop, "dram"}, std::move(memory), {});
    DramAgent agent{.name = "reader", .request = 32, .outstanding = 256};
    if (reference.random) {
      agent.outstanding = 1;
      agent.chunk = 32;
      agent.range = part.organisation.capacity() / 2;
    }
    const DramProbeResult result = probe(dram, loop, {agent}, kWarmUp, 2 * kWindow);
    rows.push_back({fmt::format("{}.bandwidth", reference.id), "GB/s", reference.gb_per_s, result.gb_per_s});
    rows.push_back({fmt::format("{}.latency", reference.id), "ns", reference.latency_ns, to_seconds(channels.mean_read_latency()) * 1e9});
  }
  return rows;
}

std::vector<DramFidelityRow> dram_fidelity(const Node& dram, std::string_view name, std::uint32_t placements) {
  if (dram.find("part") == nullptr) {
    throw ConfigError("dram.part: is missing: without it there is no detailed model to compare with (expected for example lpddr5x_8533)");
  }
  const std::vector<DramPattern> patterns = dram_patterns();
  const auto pattern = std::find_if(patterns.begin(), patterns.end(), [name](const DramPattern& p) { return p.name == name; });
  if (pattern == patterns.end()) throw ConfigError(fmt::format("dram: there is no access pattern \"{}\"", name));
  std::vector<DramFidelityRow> rows{{"all"}};
  for (const DramAgent& agent : pattern->agents) rows.push_back({agent.name});
  // One agent has nobody to collide with, unless it reads here and writes there.
  if (pattern->agents.size() == 1 && pattern->agents[0].written == 0) placements = 1;
  if (placements == 0) placements = pattern->agents.size() > 3 ? kPlacementsOfCrowds : kPlacements;
  const DramProbeResult flow = run(dram, "flow", pattern->agents, 0);  // which knows no places
  rows[0].flow = flow.gb_per_s;
  for (std::size_t i = 0; i < pattern->agents.size(); ++i) rows[1 + i].flow = flow.agents[i].gb_per_s;
  for (std::uint32_t placement = 0; placement < placements; ++placement) {
    const DramProbeResult detailed = run(dram, "detailed", pattern->agents, placement);
    rows[0].detailed += detailed.gb_per_s / placements;
    for (std::size_t i = 0; i < pattern->agents.size(); ++i) rows[1 + i].detailed += detailed.agents[i].gb_per_s / placements;
  }
  return rows;
}

std::vector<DramFidelityRow> dram_part_fidelity(std::string_view part, std::string_view pattern, std::uint32_t placements) {
  Node dram = Node::map({});
  for (const auto& [key, value] : {std::pair("capacity", "8 GB"), {"available", "8 GB"}, {"latency", "58 ns"}}) {
    dram.set(key, Node::scalar(value));
  }
  dram.set("part", Node::scalar(std::string(part)));
  return dram_fidelity(dram, pattern, placements);
}

}  // namespace vitro::hw
