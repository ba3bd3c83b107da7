#include <fmt/format.h>

#include <algorithm>

#include "engine/base/rng.hpp"
#include "sim/characterize/bench.hpp"

namespace vitro::sim {
namespace {

struct ReadLoad {
  FileId file{};
  Bytes block = 0, range = 0;
  Pattern pattern = Pattern::random;
  std::vector<UnitId> issuers;
  std::uint32_t reads = 0, issued = 0;
};

Task<void> read_lane(Machine* machine, ReadLoad* load, std::size_t lane) {
  const Lease into = machine->memory.lease(load->block, Placement::dram, Region::staging).value_or_throw();
  while (load->issued < load->reads) {
    const std::uint64_t number = load->issued++, blocks = load->range / load->block;
    const Bytes block = load->pattern == Pattern::sequential ? number % blocks : mix(1, {number}) % blocks;
    ReadRequest request;
    request.from = {load->file, block * load->block, load->block};
    request.into = into;
    request.pattern = load->pattern;
    request.issuer = load->issuers[lane % load->issuers.size()];
    const IoResult result = co_await machine->storage.read(std::move(request));
    result.status.or_throw();
  }
}

// One core per entry: the first of its class that is not taken yet.
std::vector<UnitId> read_issuers(Bench& bench, Reader& args) {
  std::vector<UnitId> issuers;
  for (const Node& name : args.list("issuers")) {
    if (!name.is_scalar()) args.fail("issuers", "is not a list of core classes (expected for example [big, mid])");
    const std::vector<ComputeUnit*> units = bench.units(name.text());
    const auto free = std::find_if(units.begin(), units.end(), [&](const ComputeUnit* unit) {
      return std::find(issuers.begin(), issuers.end(), unit->caps().id) == issuers.end() && !unit->caps().static_graphs;
    });
    if (free == units.end()) args.fail("issuers", fmt::format("asks for more \"{}\" cores than there are", name.text()));
    issuers.push_back((*free)->caps().id);
  }
  if (issuers.empty()) args.fail("issuers", "is empty (expected for example [big, mid])");
  return issuers;
}

}  // namespace

// `depth` reads in flight, dealt to the issuing cores in turn. The first visit of a map-cache region counts, as it would
// on a device that was just idle: `reads` says how long the steady state goes on after it.
ProbeResult flash_read(const Node& device, Reader& args) {
  Bench bench(device);
  ReadLoad load;
  load.block = static_cast<Bytes>(args.quantity("block", Dimension::bytes));
  load.range = static_cast<Bytes>(args.quantity("range", Dimension::bytes));
  if (load.block == 0 || load.block > load.range) args.fail("block", "does not fit into the range");
  load.pattern = args.choice("pattern", {"sequential", "random"}) == "sequential" ? Pattern::sequential : Pattern::random;
  const auto depth = static_cast<std::size_t>(args.integer("depth", 1, 1024, 1));
  load.reads = static_cast<std::uint32_t>(args.integer("reads", 1, 10'000'000));
  load.issuers = read_issuers(bench, args);
  args.finish();
  Machine& machine = bench.machine();
  load.file = machine.storage.open_phantom(load.range).value_or_throw();
  std::vector<Task<void>> tasks;
  for (std::size_t lane = 0; lane < depth; ++lane) tasks.push_back(read_lane(&machine, &load, lane));
  bench.run(std::move(tasks));
  const double rate = load.reads / to_seconds(bench.now());
  return bench.result({{"bytes_per_second", rate * static_cast<double>(load.block)},
                       {"reads_per_second", rate},
                       {"seconds_per_read", static_cast<double>(depth) / rate}});
}

}  // namespace vitro::sim
