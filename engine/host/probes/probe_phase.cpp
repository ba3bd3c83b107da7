#include "engine/host/probes/probe_phase.hpp"

#include <algorithm>
#include <optional>

#include "engine/base/check.hpp"
#include "engine/host/probes/probe_calls.hpp"
#include "engine/machine/task_scope.hpp"

namespace vitro {
namespace {

struct Lane {
  std::size_t part = 0;
  ComputeUnit* unit = nullptr;
  Chain chain;
  std::optional<Graph> graph;
  Picoseconds end{0};
};

Task<void> load(Lane* lane) {
  GraphSpec spec;
  spec.name = "probe";
  spec.calls = lane->chain;
  spec.built = true;
  Result<Graph> graph = co_await lane->unit->load(std::move(spec));
  lane->graph = std::move(graph).value_or_throw();
}

Task<void> run(Machine* machine, Lane* lane) {
  RunResult result;
  if (lane->graph) {
    Bindings bindings;
    bindings.batch = lane->chain.front().batch;
    result = co_await lane->unit->launch(*lane->graph, std::move(bindings));
  } else {
    Chain chain = lane->chain;
    result = co_await lane->unit->run(std::move(chain));
  }
  lane->end = machine->clock.now();
  result.status.or_throw();
}

Task<void> time_lanes(Machine* machine, std::vector<Lane>* lanes, std::uint32_t repetitions, PhaseTimes* times) {
  for (Lane& lane : *lanes) {
    if (lane.unit->caps().static_graphs) co_await load(&lane);
  }
  for (std::uint32_t i = 0; i <= repetitions; ++i) {
    TaskScope scope(machine->executor);
    const Picoseconds begin = machine->clock.now();
    for (Lane& lane : *lanes) scope.spawn(run(machine, &lane));
    co_await scope.join();
    if (i == 0) continue;  // touched every page, filled caches and scratch memory
    std::vector<Picoseconds> ends(times->seconds.size(), begin);
    for (const Lane& lane : *lanes) ends[lane.part] = std::max(ends[lane.part], lane.end);
    for (std::size_t part = 0; part < ends.size(); ++part) times->seconds[part].push_back(to_seconds(ends[part] - begin));
  }
}

}  // namespace

PhaseTimes probe_phase(MachineHost& host, const std::vector<PhasePart>& parts, std::uint32_t repetitions) {
  Machine& machine = host.machine();
  std::vector<Lane> lanes;
  PhaseTimes times;
  times.seconds.resize(parts.size());
  times.counts.resize(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part) {
    VITRO_CHECK(!parts[part].units.empty() && parts[part].copies > 0, "a part of a phase that is nothing");
    std::vector<Chain> chains = make_chains(machine.memory, parts[part].shape, parts[part].copies, parts[part].units.size());
    for (std::size_t u = 0; u < chains.size(); ++u) {
      for (const KernelCall& call : chains[u]) add(times.counts[part], count(call));
      lanes.push_back({part, machine.units.at(parts[part].units[u]), std::move(chains[u]), {}, {}});
    }
  }
  host.run(time_lanes(&machine, &lanes, repetitions, &times));
  return times;
}

}  // namespace vitro
