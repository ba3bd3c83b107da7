#include <algorithm>

#include "engine/base/hash.hpp"
#include "hw_models/npu/probe.hpp"
#include "sim/characterize/bench.hpp"

namespace vitro::sim {
namespace {

ProbeResult result_of(const hw::NpuBench& bench, std::vector<std::pair<std::string, double>> measures) {
  return {std::move(measures), bench.assumed(), bench.hash().hex()};
}

}  // namespace

// HVX threads that read from DRAM, by one of the ways into the NPU; the machine interface knows operators, not threads.
ProbeResult npu_read(const Node& device, Reader& args) {
  hw::ReadProbe probe;
  const std::vector<std::string> paths(std::begin(hw::kPathNames), std::end(hw::kPathNames));
  const std::string path = args.choice("path", paths);
  probe.path = static_cast<hw::Path>(std::find(paths.begin(), paths.end(), path) - paths.begin());
  probe.threads = static_cast<std::uint32_t>(args.integer("threads", 1, 64, 1));
  probe.block = static_cast<Bytes>(args.quantity("block", Dimension::bytes, static_cast<double>(MiB)));
  probe.rows = static_cast<std::uint32_t>(args.integer("rows", 1, 65536, 1));
  args.finish();
  if (probe.block == 0) args.fail("block", "is empty (expected for example 1 MiB)");
  hw::NpuBench bench(device);
  const double rate = bench.read_bandwidth(probe);
  return result_of(bench, {{"bytes_per_second", rate}});
}

// A loop of independent vlut instructions on one HVX thread.
ProbeResult npu_lookup(const Node& device, Reader& args) {
  constexpr std::uint32_t kInstructions = 4096;
  hw::LookupTable table;
  table.entries = static_cast<std::uint32_t>(args.integer("entries", 2, 256));
  table.entry_bits = static_cast<std::uint32_t>(args.integer("entry_bits", 1, 32));
  const auto value_bits = static_cast<std::uint32_t>(args.integer("value_bits", 1, 32));
  args.finish();
  hw::NpuBench bench(device);
  const double lookups = hw::lookups_per_instruction(bench.parts(), table, value_bits);
  return result_of(bench, {{"cycles_per_instruction", bench.lookup_cycles(kInstructions)},
                           {"lookups_per_instruction", lookups},
                           {"madds_per_instruction", lookups * hw::madds_per_lookup(table)}});
}

// vgathers of a vector of halfwords at random offsets, each after the one before.
ProbeResult npu_gather(const Node& device, Reader& args) {
  constexpr std::uint32_t kGathers = 1000;
  const auto table = static_cast<Bytes>(args.quantity("table", Dimension::bytes));
  args.finish();
  if (table < 2 || table > 64 * KiB) args.fail("table", "is not a table of halfwords (expected 2 B to 64 KiB)");
  hw::NpuBench bench(device);
  const double packets = bench.gather_packets(kGathers, table);
  return result_of(bench, {{"packets_per_gather", packets}});
}

}  // namespace vitro::sim
