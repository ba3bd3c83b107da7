#include "hw_models/dram/characterize.hpp"

#include <fmt/format.h>

#include <memory>

#include "hw_models/dram/detailed.hpp"
#include "hw_models/dram/flow.hpp"
#include "hw_models/dram/probe.hpp"

namespace vitro::hw {
namespace {

constexpr Picoseconds kWarmUp{20'000'000}, kWindow{100'000'000};
constexpr Bytes kPlacements[] = {GiB, 768 * MiB, 640 * MiB};

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

// The parameters that both models read from a device file, with nothing but the part in the way.
Params parameters(const std::vector<ParamSpec>& specs, std::string_view part) {
  Node node;
  for (const auto& [key, value] :
       {std::pair("capacity", "8 GB"), {"available", "8 GB"}, {"bandwidth", "1000 GB/s"}, {"latency", "58 ns"}}) {
    node.set(key, Node::scalar(value));
  }
  node.set("part", Node::scalar(std::string(part)));
  Reader reader(node, "dram");
  return {reader, specs};
}

DramProbeResult run(bool detailed, std::string_view part, std::vector<DramAgent> agents, Bytes range) {
  for (DramAgent& agent : agents) agent.range = range;
  EventLoop loop;
  const Site site{loop, "dram"};
  const Params params = parameters(detailed ? DetailedDram::params() : FlowDram::params(), part);
  std::unique_ptr<DramModel> model;
  if (detailed)
    model = DetailedDram::make(site, params);
  else
    model = std::make_unique<FlowDram>(site, params);
  return probe(*model, loop, agents, kWarmUp, kWindow);
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
    const DramProbeResult result = probe(dram, loop, {agent}, kWarmUp, 4 * kWindow);
    rows.push_back({fmt::format("{}.bandwidth", reference.id), "GB/s", reference.gb_per_s, result.gb_per_s});
    rows.push_back({fmt::format("{}.latency", reference.id), "ns", reference.latency_ns, to_seconds(channels.mean_read_latency()) * 1e9});
  }
  return rows;
}

std::vector<DramTwinRow> dram_cross_fidelity(std::string_view part) {
  std::vector<DramTwinRow> rows;
  for (const DramPattern& pattern : dram_patterns()) {
    const std::size_t first = rows.size();
    rows.push_back({pattern.name, "all"});
    for (const DramAgent& agent : pattern.agents) rows.push_back({pattern.name, agent.name});
    for (const Bytes range : kPlacements) {
      const DramProbeResult detailed = run(true, part, pattern.agents, range), flow = run(false, part, pattern.agents, range);
      constexpr double kShare = 1.0 / std::size(kPlacements);
      rows[first].detailed += kShare * detailed.gb_per_s;
      rows[first].flow += kShare * flow.gb_per_s;
      for (std::size_t i = 0; i < pattern.agents.size(); ++i) {
        rows[first + 1 + i].detailed += kShare * detailed.agents[i].gb_per_s;
        rows[first + 1 + i].flow += kShare * flow.agents[i].gb_per_s;
      }
    }
  }
  return rows;
}

}  // namespace vitro::hw
