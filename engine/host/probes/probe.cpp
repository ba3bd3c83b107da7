#include "engine/host/probes/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/rng.hpp"
#include "engine/host/probes/probe_calls.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

// `end` is the time of the answer: what the chain itself costs to build and to destroy is not the unit's.
Task<void> run_one(Machine* machine, ComputeUnit* unit, Chain* chain, Picoseconds* end) {
  auto operation = unit->run(std::move(*chain));
  const RunResult result = co_await operation;
  *end = machine->clock.now();
  result.status.or_throw();
}

// All units side by side, as a phase of a policy has them. Returns seconds.
Task<double> run_all(Machine* machine, const std::vector<Chain>* chains) {
  std::vector<Chain> copies = *chains;
  std::vector<Picoseconds> ends(copies.size());
  TaskScope scope(machine->executor);
  const Picoseconds begin = machine->clock.now();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (!copies[i].empty()) scope.spawn(run_one(machine, machine->units[i], &copies[i], &ends[i]));
  }
  co_await scope.join();
  co_return to_seconds(*std::max_element(ends.begin(), ends.end()) - begin);
}

Task<void> time_kernels(Machine* machine, const std::vector<Chain>* chains, std::uint32_t repetitions, std::vector<double>* seconds) {
  co_await run_all(machine, chains);  // touches every page, fills caches and scratch memory
  for (std::uint32_t i = 0; i < repetitions; ++i) seconds->push_back(co_await run_all(machine, chains));
}

Task<void> time_dispatch(Machine* machine, const std::vector<Chain>* chains, DispatchProbe probe, std::vector<double>* seconds) {
  for (std::uint32_t i = 0; i < probe.rounds + 5; ++i) {
    if (probe.gap.count() > 0) co_await sleep_until(machine->executor, machine->clock.now() + probe.gap);
    const double time = co_await run_all(machine, chains);
    if (i >= 5) seconds->push_back(time);
  }
}

struct Reading {
  Machine& machine;
  const StorageProbe& probe;
  FileId file{};
  Rng rng;
  std::uint32_t issued = 0;
  StorageTimes times;
};

Bytes next_offset(Reading* reading) {
  const Bytes blocks = reading->probe.range / reading->probe.block;
  const Bytes block = reading->probe.pattern == Pattern::sequential ? reading->issued % blocks : reading->rng.below(blocks);
  return block * reading->probe.block;
}

// Of a lane that reads to fresh pages: enough of them that neighbours in the range are none in memory after a while.
constexpr std::size_t kWindows = 256;

Task<void> read_lane(Reading* reading, TaskScope* scope) {
  const StorageProbe& probe = reading->probe;
  Memory& memory = reading->machine.memory;
  const Bytes room = round_up(probe.block, kPageSize);
  const Lease buffer = probe.fresh_pages ? memory.reserve(kWindows * room, Placement::dram, Region::staging).value_or_throw()
                                         : memory.lease(room, Placement::dram, Region::staging).value_or_throw();
  std::array<bool, kWindows> held{};
  while (reading->issued < probe.reads && !scope->stop_requested()) {
    ReadRequest request;
    request.from = {reading->file, next_offset(reading), probe.block};
    request.into = buffer;
    request.issuer = reading->machine.units.front()->caps().id;
    request.pattern = probe.pattern;
    ++reading->issued;
    const Picoseconds begin = reading->machine.clock.now();
    if (probe.fresh_pages) {
      const Bytes gone = reading->rng.below(kWindows), window = reading->rng.below(kWindows);
      for (const Bytes freed : {gone, window}) {
        if (std::exchange(held[freed], false)) memory.decommit(buffer, freed * room, room);
      }
      memory.commit(buffer, window * room, room).or_throw();
      held[window] = true;
      request.into_offset = window * room;
    }
    const IoResult result = co_await reading->machine.storage.read(std::move(request));
    result.status.or_throw();
    reading->times.latencies.push_back(to_seconds(reading->machine.clock.now() - begin));
  }
}

Task<void> read_all(Reading* reading) {
  const Picoseconds begin = reading->machine.clock.now();
  TaskScope scope(reading->machine.executor);
  for (std::uint32_t i = 0; i < reading->probe.depth; ++i) scope.spawn(read_lane(reading, &scope));
  co_await scope.join();
  reading->times.seconds = to_seconds(reading->machine.clock.now() - begin);
}

CallShape flush_shape(std::uint32_t rows) {
  CallShape shape;
  shape.variant = variant::kFloat;
  shape.format = Format::f16;
  shape.rows = rows;
  shape.columns = 1280;
  return shape;
}

// Before each call of a chain, the first one of the other chain.
void put_between(std::vector<Chain>& chains, const std::vector<Chain>& others) {
  for (std::size_t unit = 0; unit < chains.size(); ++unit) {
    Chain both;
    for (KernelCall& call : chains[unit]) {
      both.push_back(others[unit].front());
      both.push_back(std::move(call));
    }
    chains[unit] = std::move(both);
  }
}

}  // namespace

KernelTimes probe_kernel(MachineHost& host, const KernelProbe& probe) {
  Machine& machine = host.machine();
  const Bytes operand = operand_bytes(probe.shape);
  KernelTimes times;
  times.copies = operand > 0 ? std::max<std::uint64_t>(1, (probe.working_set + operand - 1) / operand) : 1;
  times.working_set = times.copies * operand;
  std::vector<Chain> chains = make_chains(machine.memory, probe.shape, times.copies, machine.units.size());
  for (const Chain& chain : chains) add(times.counts, count(chain.front()));
  if (probe.flush_rows > 0) put_between(chains, make_chains(machine.memory, flush_shape(probe.flush_rows), 1, machine.units.size()));
  for (Chain& chain : chains) {
    const Chain once = chain;
    for (std::uint32_t i = 1; i < probe.rounds; ++i) chain.insert(chain.end(), once.begin(), once.end());
  }
  const auto calls = static_cast<double>(chains.front().size()) / (probe.flush_rows > 0 ? 2 : 1);
  host.run(time_kernels(&machine, &chains, probe.repetitions, &times.seconds));
  for (double& seconds : times.seconds) seconds /= calls;
  return times;
}

std::vector<double> probe_dispatch(MachineHost& host, const DispatchProbe& probe) {
  Machine& machine = host.machine();
  CallShape small;
  small.op = ops::Add{};
  small.columns = 16;
  if (probe.skip >= machine.units.size()) throw ConfigError(fmt::format("probe: skip: {} of {} units", probe.skip, machine.units.size()));
  std::vector<Chain> chains = make_chains(machine.memory, small, 1, machine.units.size());
  for (std::uint32_t i = 0; i < probe.skip; ++i) chains[i].clear();
  std::vector<double> seconds;
  host.run(time_dispatch(&machine, &chains, probe, &seconds));
  return seconds;
}

StorageTimes probe_storage(MachineHost& host, const StorageProbe& probe) {
  if (probe.block == 0 || probe.range < probe.block || probe.depth == 0 || probe.reads == 0) {
    throw ConfigError("probe: block, depth and reads: expected 1 or more, and a range of at least one block");
  }
  Machine& machine = host.machine();
  Result<FileId> file = probe.file.empty() ? machine.storage.open_phantom(probe.range) : machine.storage.open(probe.file);
  Reading reading{machine, probe, std::move(file).value_or_throw(), Rng(probe.seed), 0, {}};
  host.run(read_all(&reading));
  return std::move(reading.times);
}

}  // namespace vitro
